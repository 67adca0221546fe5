package io.sparktrainer.comm;

import io.sparktrainer.comm.CollectiveCounts.Kind;
import io.sparktrainer.torch.CudaStream;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.bytedeco.pytorch.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * One collective on the device. Nobody waits inside native code: who waits on the host looks at the
 * device and at the signal of an abort in turn, and the session's watch raises that.
 *
 * <p>It holds the tensors until the device is done with them, or until {@link #await} has made the
 * caller's stream wait for it: their memory goes back to that stream, whose next work then finds
 * them unused. So libtorch's allocator need not be told of the group's stream.
 */
final class NcclHandle implements CollectiveHandle {
  // A collective under way takes tens of microseconds at least: look often at first, then rarely.
  private static final int SPINS = 100;
  private static final long PAUSE_NANOSECONDS = 20_000;

  private final NcclCommunicator owner;
  private final CollectiveCall call;
  private final Tensor[] tensors;
  private final long startNanos;
  private CudaStream.@Nullable Mark end; // null until it is on the stream
  private boolean freed;
  private boolean ended;
  private volatile boolean done;
  private @Nullable CollectiveException failure;

  /**
   * @param startNanos when the call was made
   * @param tensors kept handles, closed when they are not needed any more
   */
  NcclHandle(NcclCommunicator owner, CollectiveCall call, long startNanos, Tensor... tensors) {
    this.owner = owner;
    this.call = call;
    this.startNanos = startNanos;
    this.tensors = tensors;
  }

  /**
   * Notes that the collective is on the group's stream.
   *
   * @param behind it; owned by the handle from now on
   */
  synchronized void queued(CudaStream.Mark behind) {
    end = behind;
  }

  private synchronized CudaStream.Mark end() {
    if (end == null) {
      throw new IllegalStateException(
          "Cannot wait for %s: it starts at the end of its group of calls (rank %d of %d)."
              .formatted(call, owner.rank(), owner.worldSize()));
    }
    return end;
  }

  @Override
  public void await() {
    // Also if it has ended on the device: an abort ends it, too.
    boolean over = done || owner.abortSignal().reason() != null;
    if (over || call.kind() == Kind.BARRIER || !leadLibtorch()) {
      awaitOnHost();
    }
  }

  private synchronized boolean leadLibtorch() {
    if (!ended && !end().leadLibtorch()) {
      return false;
    }
    free();
    return true;
  }

  @Override
  public void awaitOnHost() {
    for (int look = 0; !look(); look++) {
      if (look < SPINS) {
        Thread.onSpinWait();
      } else {
        LockSupport.parkNanos(PAUSE_NANOSECONDS);
      }
    }
    CollectiveException failed = failure;
    if (failed != null) {
      throw failed;
    }
  }

  @Override
  public boolean isDone() {
    return done || owner.abortSignal().reason() != null || settle();
  }

  /** Returns whether the wait is over, well or not. */
  private boolean look() {
    if (done) {
      return true;
    }
    // An abort ends the work on the device, too, so it is looked at behind the device.
    boolean reached = settle();
    String reason = owner.abortSignal().reason();
    if (reason != null) {
      finish(owner.failure(call, startNanos, "the group was aborted by " + reason, null));
    } else if (reached) {
      finish(null);
    } else if (Thread.currentThread().isInterrupted()) {
      finish(owner.failure(call, startNanos, "the thread was interrupted", null));
    }
    return done;
  }

  private synchronized void finish(@Nullable CollectiveException found) {
    if (!done) {
      failure = found;
      done = true;
    }
  }

  /** Gives back what is held if the device is done with the collective; returns whether it is. */
  synchronized boolean settle() {
    if (!ended && end().isReached()) {
      ended = true;
      end().release();
      free();
    }
    return ended;
  }

  private void free() {
    if (!freed) {
      freed = true;
      for (Tensor tensor : tensors) {
        tensor.close();
      }
    }
  }

  CollectiveCall call() {
    return call;
  }

  /**
   * Why the collective has to be given up, or null while it may still end well.
   *
   * @param turnNanos when the group's collective before it had ended
   */
  @Nullable String overdue(long turnNanos, int timeoutSeconds) {
    long since = Math.max(turnNanos - startNanos, 0) + startNanos;
    return System.nanoTime() - since > TimeUnit.SECONDS.toNanos(timeoutSeconds)
        ? "%s did not end within %d s. Ranks that make another call, or with other sizes, wait for ever: see their logs, or raise the time-out"
            .formatted(call, timeoutSeconds)
        : null;
  }
}
