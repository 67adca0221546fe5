package io.sparktrainer.torch;

import org.jspecify.annotations.Nullable;

/** libtorch or one of the libraries it needs cannot be loaded into this JVM. */
public final class NativeLibraryException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  NativeLibraryException(String message, @Nullable Throwable cause) {
    super(message, cause);
  }
}
