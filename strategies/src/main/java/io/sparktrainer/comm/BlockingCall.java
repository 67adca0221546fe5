package io.sparktrainer.comm;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * Runs a native call that can block beyond any time-out it was given (libtorch's store client waits
 * for ever for a peer that accepts and says nothing) on a thread of its own, so that the caller
 * leaves on time, on an abort, or on an interrupt.
 */
final class BlockingCall {
  private static final long POLL_MILLISECONDS = 20;

  private BlockingCall() {}

  /**
   * Makes something native.
   *
   * @param what verb and object, for messages
   * @param who the caller's place, for messages
   * @param dispose closes what was made after the caller has left early
   * @return what was made, owned by the caller
   */
  static <T> T make(
      String what,
      String who,
      int timeoutSeconds,
      AbortSignal abort,
      Supplier<T> call,
      Consumer<T> dispose) {
    CompletableFuture<T> result = new CompletableFuture<>();
    Thread thread = new Thread(() -> complete(result, call, dispose), "spark-trainer " + what);
    thread.setDaemon(true);
    thread.start();
    return await(result, what, who, timeoutSeconds, abort);
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

  private static <T> T await(
      CompletableFuture<T> result, String what, String who, int timeoutSeconds, AbortSignal abort) {
    long start = System.nanoTime();
    long deadline = start + TimeUnit.SECONDS.toNanos(timeoutSeconds);
    while (true) {
      try {
        return result.get(POLL_MILLISECONDS, TimeUnit.MILLISECONDS);
      } catch (TimeoutException e) {
        String reason = abort.reason();
        if (reason != null) {
          give(result, message(what, who, start, "the group was aborted by " + reason), null);
        } else if (System.nanoTime() > deadline) {
          String found = "expected an answer within " + timeoutSeconds + " s, got none";
          give(result, message(what, who, start, found), null);
        }
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        give(result, message(what, who, start, "the thread was interrupted"), e);
      } catch (ExecutionException e) {
        Throwable cause = e.getCause();
        String reason = abort.reason();
        String found =
            reason == null
                ? NativeErrors.firstLine(cause) + " (time-out " + timeoutSeconds + " s)"
                : "the group was aborted by " + reason;
        throw new CollectiveException(message(what, who, start, found), cause);
      }
    }
  }

  /** Ends {@code result} with an exception unless it has just been completed. */
  private static void give(CompletableFuture<?> result, String message, @Nullable Throwable cause) {
    CollectiveException exception = new CollectiveException(message, cause);
    if (result.completeExceptionally(exception)) {
      throw exception;
    }
  }

  private static String message(String what, String who, long start, String found) {
    return "Cannot %s (%s, after %s): %s."
        .formatted(what, who, NativeErrors.secondsSince(start), found);
  }
}
