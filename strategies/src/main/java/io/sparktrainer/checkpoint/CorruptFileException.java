package io.sparktrainer.checkpoint;

import java.io.IOException;

/** A file whose content is not what its format says: cut short, overwritten, or of another kind. */
public final class CorruptFileException extends IOException {
  private static final long serialVersionUID = 1L;

  CorruptFileException(String message) {
    super(message);
  }

  CorruptFileException(String message, Throwable cause) {
    super(message, cause);
  }
}
