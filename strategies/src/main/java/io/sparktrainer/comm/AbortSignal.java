package io.sparktrainer.comm;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** Set once, with the first reason, when a group and everything split from it has to end. */
final class AbortSignal {
  private final CountDownLatch raised = new CountDownLatch(1);
  private @Nullable String reason;

  /**
   * Raises the signal unless it is up already.
   *
   * @return whether this call raised it
   */
  synchronized boolean raise(String why) {
    if (reason != null) {
      return false;
    }
    reason = why;
    raised.countDown();
    return true;
  }

  /** The first reason, or null while nothing was aborted. */
  synchronized @Nullable String reason() {
    return reason;
  }

  /** The first reason, waiting for it; null if none came in time or the thread was interrupted. */
  @Nullable String await(long milliseconds) {
    try {
      if (!raised.await(milliseconds, TimeUnit.MILLISECONDS)) {
        return null;
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    return reason();
  }
}
