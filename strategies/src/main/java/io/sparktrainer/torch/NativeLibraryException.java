package io.sparktrainer.torch;

import org.jspecify.annotations.Nullable;

/**
 * libtorch or one of the libraries it needs cannot be loaded into this JVM. It stays so: the JVM
 * does not try a class again whose library was missing.
 */
public final class NativeLibraryException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** The end of messages. */
  static final String ONCE =
      " A JVM tries only once: once this is mended, let new executors (or a new JVM) take the place of those that failed.";

  NativeLibraryException(String message, @Nullable Throwable cause) {
    super(message, cause);
  }
}
