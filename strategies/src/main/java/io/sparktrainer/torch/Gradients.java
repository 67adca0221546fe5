package io.sparktrainer.torch;

import org.bytedeco.pytorch.GradMode;

/**
 * Whether operations on the calling thread are recorded for a backward pass. Restores the earlier
 * state when closed.
 */
public final class Gradients implements AutoCloseable {
  private final boolean before;

  private Gradients(boolean recorded) {
    NativeLibraries.load();
    this.before = GradMode.is_enabled();
    GradMode.set_enabled(recorded);
  }

  /** Nothing is recorded until the result is closed. */
  public static Gradients off() {
    return new Gradients(false);
  }

  /** Everything is recorded until the result is closed, even inside {@link #off()}. */
  public static Gradients on() {
    return new Gradients(true);
  }

  /** Whether operations on the calling thread are recorded now. */
  public static boolean areOn() {
    NativeLibraries.load();
    return GradMode.is_enabled();
  }

  @Override
  public void close() {
    GradMode.set_enabled(before);
  }
}
