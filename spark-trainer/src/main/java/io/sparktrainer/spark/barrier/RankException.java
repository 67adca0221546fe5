package io.sparktrainer.spark.barrier;

import io.sparktrainer.comm.CollectiveException;
import io.sparktrainer.engine.TrainingException;
import org.jspecify.annotations.Nullable;

/**
 * A rank that failed, as the driver is told: the cause as text, since its class may not be there.
 */
public final class RankException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  private final int rank;
  private final boolean followUp;
  private final String reason;

  private RankException(int rank, String message, boolean followUp, String reason) {
    super(message);
    this.rank = rank;
    this.followUp = followUp;
    this.reason = reason;
  }

  static RankException of(Rank rank, Throwable cause) {
    String reason = reason(cause);
    RankException exception =
        new RankException(
            rank.rank(),
            "Rank %d of %d failed on host %s, device %s, %s: %s"
                .formatted(
                    rank.rank(),
                    rank.worldSize(),
                    rank.host(),
                    rank.device(),
                    rank.doing(),
                    reason),
            rank.isKilled() || isFollowUp(cause),
            reason);
    exception.setStackTrace(cause.getStackTrace());
    return exception;
  }

  /** The rank that failed. */
  public int rank() {
    return rank;
  }

  /** Whether the rank failed only because another one had. */
  public boolean followUp() {
    return followUp;
  }

  /** What went wrong, without where. */
  public String reason() {
    return reason;
  }

  private static String reason(Throwable thrown) {
    // The training loop's own exception only adds where it happened, which is said already.
    Throwable cause =
        thrown instanceof TrainingException && thrown.getCause() != null
            ? thrown.getCause()
            : thrown;
    StringBuilder text = new StringBuilder();
    String last = null;
    Throwable at = cause;
    for (int depth = 0; at != null && depth < 6; depth++, at = at.getCause()) {
      String message = describe(at);
      // Wrappers repeat what they wrap.
      if (last == null || !last.contains(message)) {
        text.append(last == null ? "" : " Caused by: ").append(message);
        last = message;
      }
    }
    return text.toString();
  }

  private static String describe(Throwable throwable) {
    String message = withoutNativeStack(throwable.getMessage());
    if (message == null || message.isBlank()) {
      return throwable.getClass().getName();
    }
    boolean speaksForItself =
        throwable instanceof IllegalArgumentException
            || throwable instanceof IllegalStateException
            || throwable.getClass().getName().startsWith("io.sparktrainer.");
    return speaksForItself ? message : throwable.getClass().getSimpleName() + ": " + message;
  }

  /** libtorch's messages end in the C++ stack. */
  private static @Nullable String withoutNativeStack(@Nullable String message) {
    return message == null ? null : message.split("\nException raised from ", 2)[0].strip();
  }

  private static boolean isFollowUp(@Nullable Throwable cause) {
    for (Throwable at = cause; at != null; at = at.getCause()) {
      if (at instanceof CollectiveException || at instanceof InterruptedException) {
        return true;
      }
    }
    return false;
  }
}
