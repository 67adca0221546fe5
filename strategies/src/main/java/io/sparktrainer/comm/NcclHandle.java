package io.sparktrainer.comm;

import io.sparktrainer.torch.CudaStream;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.bytedeco.pytorch.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * One collective on the device. It holds the tensors until the device is done with them. Nobody
 * waits inside native code: the device, the group's state and the signal of an abort are looked at
 * in turn.
 */
final class NcclHandle implements CollectiveHandle {
  // A collective under way takes tens of microseconds at least: look often at first, then rarely.
  private static final int SPINS = 100;
  private static final long PAUSE_NANOSECONDS = 20_000;

  private final NcclCommunicator owner;
  private final CollectiveCall call;
  private final Tensor[] tensors;
  private final long startNanos = System.nanoTime();
  private CudaStream.@Nullable Mark end;
  private boolean released;
  private volatile boolean done;
  private @Nullable CollectiveException failure;

  /**
   * @param tensors kept handles, closed when the device is done
   */
  NcclHandle(NcclCommunicator owner, CollectiveCall call, Tensor... tensors) {
    this.owner = owner;
    this.call = call;
    this.tensors = tensors;
  }

  /** The collective is on the stream, before {@code mark}. */
  synchronized void launched(CudaStream.Mark mark) {
    this.end = mark;
  }

  @Override
  public void await() {
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
    return done || owner.abortSignal().reason() != null || isReached();
  }

  /** Returns whether the wait is over, well or not. */
  private boolean look() {
    if (done) {
      return true;
    }
    CollectiveException found = null;
    // An abort ends the work on the device, too, so it is looked at behind the device.
    boolean reached = isReached();
    String reason = owner.abortSignal().reason();
    if (reason != null) {
      found = owner.failure(call, startNanos, "the group was aborted by " + reason, null);
    } else if (!reached && Thread.currentThread().isInterrupted()) {
      found = owner.failure(call, startNanos, "the thread was interrupted", null);
    } else if (!reached) {
      owner.look();
      return false;
    }
    finish(found);
    return true;
  }

  private synchronized void finish(@Nullable CollectiveException found) {
    if (!done) {
      failure = found;
      done = true;
    }
    if (found == null) {
      release();
    }
  }

  private synchronized boolean isReached() {
    if (end == null && !released) {
      throw new IllegalStateException(
          "Cannot wait for %s: it starts at the end of its group of calls (rank %d of %d)."
              .formatted(call, owner.rank(), owner.worldSize()));
    }
    return released || (end != null && end.isReached());
  }

  /** Frees the tensors if the device is done with them; returns whether it is. */
  synchronized boolean settle() {
    if (!released && (end == null || end.isReached())) {
      release();
    }
    return released;
  }

  private void release() {
    if (!released) {
      released = true;
      if (end != null) {
        end.release();
      }
      for (Tensor tensor : tensors) {
        tensor.close();
      }
    }
  }

  /** Why the collective has to be given up, or null while it may still end well. */
  @Nullable String overdue(int timeoutSeconds) {
    boolean late = System.nanoTime() - startNanos > TimeUnit.SECONDS.toNanos(timeoutSeconds);
    return late && !settle()
        ? "%s did not end within %d s. Ranks that make another call, or with other sizes, wait for ever: see their logs"
            .formatted(call, timeoutSeconds)
        : null;
  }
}
