package io.sparktrainer.spark.config;

import java.util.Locale;

/** Names of choices as configurations write them. */
final class Names {
  private Names() {}

  static String of(Enum<?> constant) {
    return constant.name().toLowerCase(Locale.ROOT);
  }
}
