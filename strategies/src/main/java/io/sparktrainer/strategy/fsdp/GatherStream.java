package io.sparktrainer.strategy.fsdp;

import io.sparktrainer.comm.CollectiveHandle;
import io.sparktrainer.comm.Communicator;
import io.sparktrainer.torch.CudaStream;
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

  /** Lets the gathers from now on wait for {@code mark}, too; null is nothing to wait for. */
  void follow(CudaStream.@Nullable Mark mark) {
    if (stream != null && mark != null) {
      stream.follow(mark);
    }
  }

  /** Starts gathers: what {@code gathers} copies, and the collectives that it starts, run here. */
  void run(Runnable gathers) {
    if (stream == null) {
      gathers.run();
      return;
    }
    try (var aside = stream.makeCurrent()) {
      gathers.run();
    }
  }

  /** A gather that is over when what has been copied here so far is. */
  CollectiveHandle copied() {
    return stream == null ? NoCollective.INSTANCE : new Copied(stream.mark());
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
