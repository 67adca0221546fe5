package io.sparktrainer.torch;

import org.bytedeco.pytorch.global.torch;

/**
 * How many processor threads one rank uses. libtorch takes every core in every rank unless told,
 * and two ranks that do so run slower than one.
 */
public final class Threads {
  private Threads() {}

  /**
   * Threads for each of {@code ranks} ranks that share {@code cores} cores: an equal share, at
   * least one.
   */
  public static int share(int cores, int ranks) {
    if (cores < 1 || ranks < 1) {
      throw new IllegalArgumentException(
          "Cannot share cores: expected at least 1 core and 1 rank, got %d cores and %d ranks."
              .formatted(cores, ranks));
    }
    return Math.max(1, cores / ranks);
  }

  /**
   * Sets the threads that libtorch and its BLAS use for work started from the calling thread. A
   * rank that is a thread calls this on its own thread.
   */
  public static void use(int count) {
    if (count < 1) {
      throw new IllegalArgumentException(
          "Cannot set the thread count: expected at least 1, got " + count + ".");
    }
    NativeLibraries.load();
    torch.set_num_threads(count);
    Blas.use(count);
  }

  /** Threads that work started from the calling thread may use. */
  public static int inUse() {
    NativeLibraries.load();
    return torch.get_num_threads();
  }
}
