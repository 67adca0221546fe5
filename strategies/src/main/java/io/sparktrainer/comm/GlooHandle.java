package io.sparktrainer.comm;

import io.sparktrainer.torch.NativeScope;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.javacpp.chrono.Milliseconds;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.Work;
import org.jspecify.annotations.Nullable;

/**
 * One collective under way on Gloo. It holds the tensors, so that neither closing a scope nor
 * dropping the handle takes them from under the native threads.
 */
final class GlooHandle implements CollectiveHandle {
  // Between two looks at the abort signal and the thread's interrupt flag.
  private static final long POLL_MILLISECONDS = 50;

  /** What is left to do with the tensors once the native work is done. */
  interface Finish {
    void run();

    Finish NOTHING = () -> {};
  }

  private final CheckedCommunicator owner;
  private final CollectiveCall call;
  private final int timeoutSeconds;
  private final Work work;
  private final Tensor[] tensors;
  private final Finish finish;
  private final long startNanos = System.nanoTime();
  private boolean released;
  private volatile boolean done;
  private @Nullable CollectiveException failure;

  /**
   * @param work native work, owned by the handle from now on
   * @param tensors kept handles, closed when the work is done
   */
  GlooHandle(
      CheckedCommunicator owner,
      CollectiveCall call,
      int timeoutSeconds,
      Work work,
      Finish finish,
      Tensor... tensors) {
    this.owner = owner;
    this.call = call;
    this.timeoutSeconds = timeoutSeconds;
    this.work = work;
    this.finish = finish;
    this.tensors = tensors;
  }

  @Override
  public synchronized void await() {
    while (!done) {
      poll();
    }
    if (failure != null) {
      throw failure;
    }
  }

  @Override
  public boolean isDone() {
    return done || owner.abortSignal().reason() != null || completedNatively();
  }

  private synchronized boolean completedNatively() {
    return done || work.isCompleted();
  }

  /** Finishes a handle nobody waits for, if its work is done; returns whether it is. */
  synchronized boolean settle() {
    if (!released && work.isCompleted()) {
      if (!done) {
        poll();
      }
      release();
    }
    return released;
  }

  private void poll() {
    try (var scope = NativeScope.open()) {
      work._wait(new Milliseconds(POLL_MILLISECONDS));
    } catch (RuntimeException e) {
      examine(e);
      return;
    }
    finish.run();
    done = true;
    release();
  }

  private void examine(RuntimeException error) {
    String reason = owner.abortSignal().reason();
    if (work.isCompleted()) {
      examineFailedWork(error);
    } else if (reason != null) {
      fail("the group was aborted by " + reason);
    } else if (Thread.currentThread().isInterrupted()) {
      fail("the thread was interrupted");
    }
    // Otherwise only this poll's own time has passed.
  }

  private void examineFailedWork(RuntimeException error) {
    RuntimeException failed = error;
    try (var scope = NativeScope.open()) {
      work._wait(new Milliseconds(POLL_MILLISECONDS));
      return; // it was completed between the poll and the look; the next poll finishes it
    } catch (RuntimeException e) {
      failed = e;
    }
    failure = owner.nativeFailure(call, startNanos, timeoutSeconds, failed);
    done = true;
    release();
  }

  private void fail(String found) {
    failure = owner.failure(call, startNanos, found, null);
    done = true;
  }

  private void release() {
    if (!released) {
      released = true;
      work.close();
      for (Pointer tensor : tensors) {
        tensor.close();
      }
    }
  }
}
