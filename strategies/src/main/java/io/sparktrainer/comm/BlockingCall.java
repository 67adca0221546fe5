package io.sparktrainer.comm;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * Waiting that ends on time, on an abort, or on an interrupt, whatever the other side does. Native
 * calls that block run on a thread of their own for it.
 */
final class BlockingCall {
  private static final long POLL_MILLISECONDS = 20;
  private static final long PAUSE_MILLISECONDS = 2;

  private final String what;
  private final String who;
  private final int timeoutSeconds;
  private final AbortSignal abort;
  private final long startNanos = System.nanoTime();

  /**
   * @param what verb and object, for messages
   * @param who the caller's place, for messages
   */
  BlockingCall(String what, String who, int timeoutSeconds, AbortSignal abort) {
    this.what = what;
    this.who = who;
    this.timeoutSeconds = timeoutSeconds;
    this.abort = abort;
  }

  /**
   * Starts {@code call} on a thread of its own.
   *
   * @param dispose closes what is made after the future was cancelled
   */
  <T> CompletableFuture<T> start(Supplier<T> call, Consumer<T> dispose) {
    CompletableFuture<T> result = new CompletableFuture<>();
    Thread thread = new Thread(() -> complete(result, call, dispose), "spark-trainer " + what);
    thread.setDaemon(true);
    thread.start();
    return result;
  }

  private static <T> void complete(
      CompletableFuture<T> result, Supplier<T> call, Consumer<T> dispose) {
    T made;
    try {
      made = call.get();
    } catch (RuntimeException | LinkageError e) {
      result.completeExceptionally(e);
      return;
    }
    if (!result.complete(made)) {
      dispose.accept(made);
    }
  }

  /**
   * The result of {@code future}, which is cancelled if it does not come.
   *
   * @throws CollectiveException after the time-out, counted from the making of this object, and
   *     when the group is aborted, the thread interrupted, or the call itself fails
   */
  <T> T await(Future<T> future) {
    while (true) {
      try {
        return future.get(POLL_MILLISECONDS, TimeUnit.MILLISECONDS);
      } catch (TimeoutException e) {
        if (abort.reason() != null) {
          future.cancel(false);
          throw failure("", e);
        }
        if (System.nanoTime() > deadline()) {
          future.cancel(false);
          throw failure("expected all ranks within " + timeoutSeconds + " s, got none", e);
        }
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        future.cancel(false);
        throw failure("the thread was interrupted", e);
      } catch (ExecutionException e) {
        Throwable cause = e.getCause();
        throw failure(
            NativeErrors.firstLine(cause) + " (time-out " + timeoutSeconds + " s)", cause);
      }
    }
  }

  /**
   * A short sleep between two looks at something that cannot be waited for.
   *
   * @throws CollectiveException as {@link #await} does
   */
  void pause() {
    CompletableFuture<Void> nothing = new CompletableFuture<>();
    nothing.completeOnTimeout(null, PAUSE_MILLISECONDS, TimeUnit.MILLISECONDS);
    await(nothing);
    if (abort.reason() != null || System.nanoTime() > deadline()) {
      throw failure("expected all ranks within " + timeoutSeconds + " s", null);
    }
  }

  private long deadline() {
    return startNanos + TimeUnit.SECONDS.toNanos(timeoutSeconds);
  }

  private CollectiveException failure(String found, @Nullable Throwable cause) {
    String reason = abort.reason();
    return new CollectiveException(
        "Cannot %s (%s, after %s): %s."
            .formatted(
                what,
                who,
                NativeErrors.secondsSince(startNanos),
                reason == null ? found : "the group was aborted by " + reason),
        cause);
  }
}
