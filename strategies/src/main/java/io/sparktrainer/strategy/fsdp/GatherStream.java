package io.sparktrainer.strategy.fsdp;

import io.sparktrainer.comm.CollectiveHandle;
import io.sparktrainer.comm.Communicator;
import io.sparktrainer.torch.CudaStream;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * The stream of the device that gathers run on, beside what is computed, so that a unit arrives
 * while another one is computed. A gather waits for two things only: for the update of the shards,
 * and for its buffer's last use. On the processor there is no such stream, and nothing to wait for.
 */
final class GatherStream implements AutoCloseable {
  private final @Nullable CudaStream stream;

  /** Of the device that {@code communicator} connects. */
  GatherStream(Communicator communicator) {
    this.stream = communicator.newStream();
  }

  /** Whether gathers run beside what is computed. */
  boolean isBeside() {
    return stream != null;
  }

  /** Lets the gathers from now on wait for what has been computed so far. */
  void followComputing() {
    if (stream != null) {
      stream.followLibtorch();
    }
  }

  /** The end of what has been computed so far; null where gathers need not wait. */
  CudaStream.@Nullable Mark computed() {
    return stream == null ? null : stream.markLibtorch();
  }

  /**
   * Starts a gather.
   *
   * @param after what it waits for
   * @param gather copies this rank's piece, and starts the collective if there is one
   */
  CollectiveHandle run(CudaStream.@Nullable Mark after, Supplier<CollectiveHandle> gather) {
    if (stream == null) {
      return gather.get();
    }
    if (after != null) {
      stream.follow(after);
    }
    try (var aside = stream.makeCurrent()) {
      CollectiveHandle handle = gather.get();
      return handle == NoCollective.INSTANCE ? new Copied(stream.mark()) : handle;
    }
  }

  @Override
  public void close() {
    if (stream != null) {
      stream.close();
    }
  }

  /** A gather that is a copy alone. */
  private static final class Copied implements CollectiveHandle {
    private final CudaStream.Mark end;
    private boolean awaited;

    private Copied(CudaStream.Mark end) {
      this.end = end;
    }

    @Override
    public void await() {
      if (!awaited) {
        boolean unused = end.leadLibtorch();
        end.release();
        awaited = true;
      }
    }

    @Override
    public boolean isDone() {
      return awaited || end.isReached();
    }
  }
}
