package io.sparktrainer.comm;

import java.util.Locale;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/** Native messages as a reader wants them: one line, without build paths and stack frames. */
final class NativeErrors {
  private static final Pattern SOURCE_POSITION =
      Pattern.compile("^\\[[^\\]]*\\.(cc|cpp|h):\\d+\\] ");

  private NativeErrors() {}

  static String firstLine(@Nullable Throwable error) {
    String message = error == null ? null : error.getMessage();
    if (message == null) {
      return String.valueOf(error);
    }
    String line = message.lines().findFirst().orElse("").strip();
    return SOURCE_POSITION.matcher(line).replaceFirst("");
  }

  static String secondsSince(long startNanos) {
    return String.format(Locale.ROOT, "%.1f s", (System.nanoTime() - startNanos) / 1e9);
  }
}
