package io.sparktrainer.spark.config;

import static java.util.Objects.requireNonNull;

/**
 * One mistake in a configuration.
 *
 * @param path where it is, as dotted keys, such as {@code training.epochs}; empty for the whole
 * @param place file and line, or the option of the command line, that it came from
 * @param message what was found and what is allowed
 */
public record Problem(String path, String place, String message) {
  public Problem {
    requireNonNull(path, "path");
    requireNonNull(place, "place");
    requireNonNull(message, "message");
  }

  @Override
  public String toString() {
    String where = path.isEmpty() ? place : path + " (" + place + ")";
    return where + ": " + message;
  }
}
