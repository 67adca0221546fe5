package io.sparktrainer.comm;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.jspecify.annotations.Nullable;

/** A collective that the group's own thread works on. */
final class RingHandle implements CollectiveHandle {
  // Between two looks at the abort signal.
  private static final long POLL_MILLISECONDS = 50;

  private final CheckedCommunicator owner;
  private final CollectiveCall call;
  private final int timeoutSeconds;
  private final CompletableFuture<Void> work;
  private final long startNanos = System.nanoTime();
  private @Nullable CollectiveException failure;

  /**
   * @param work completed by the group's thread
   */
  RingHandle(
      CheckedCommunicator owner,
      CollectiveCall call,
      int timeoutSeconds,
      CompletableFuture<Void> work) {
    this.owner = owner;
    this.call = call;
    this.timeoutSeconds = timeoutSeconds;
    this.work = work;
  }

  @Override
  public synchronized void await() {
    while (failure == null) {
      try {
        work.get(POLL_MILLISECONDS, TimeUnit.MILLISECONDS);
        return;
      } catch (TimeoutException e) {
        String reason = owner.abortSignal().reason();
        if (reason != null) {
          failure = owner.failure(call, startNanos, "the group was aborted by " + reason, null);
        }
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        failure = owner.failure(call, startNanos, "the thread was interrupted", e);
      } catch (ExecutionException e) {
        failure = owner.nativeFailure(call, startNanos, timeoutSeconds, e.getCause());
      }
    }
    throw failure;
  }

  @Override
  public boolean isDone() {
    return work.isDone() || owner.abortSignal().reason() != null;
  }
}
