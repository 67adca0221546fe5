package io.sparktrainer.spark.barrier;

import org.jspecify.annotations.Nullable;

/** A barrier stage that could not be run, or failed; the message is the first cause. */
public final class StageFailedException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  StageFailedException(String message, @Nullable Throwable cause) {
    super(message, cause);
  }
}
