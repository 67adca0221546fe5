package io.sparktrainer.comm;

import org.jspecify.annotations.Nullable;

/** A collective that did not complete: a lost peer, a time-out, an abort, or a mismatch. */
public final class CollectiveException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  public CollectiveException(String message, @Nullable Throwable cause) {
    super(message, cause);
  }
}
