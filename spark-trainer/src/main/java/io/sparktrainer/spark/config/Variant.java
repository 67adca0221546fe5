package io.sparktrainer.spark.config;

import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * One of several kinds of value that a section can hold, such as one optimizer: how it is read and
 * written.
 *
 * @param <T> what all kinds have in common
 */
interface Variant<T> {
  /** The name in a configuration. */
  String name();

  /** Reads the kind's own keys; null after a mistake was reported. */
  @Nullable T read(Section section);

  /**
   * The kind's keys with all values, defaults too, or null where {@code value} is of another kind.
   */
  @Nullable Map<String, @Nullable Object> write(T value);
}
