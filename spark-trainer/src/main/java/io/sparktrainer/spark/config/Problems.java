package io.sparktrainer.spark.config;

import java.util.ArrayList;
import java.util.List;

/** Gathers mistakes, so that all are reported at once. */
final class Problems {
  private final List<Problem> found = new ArrayList<>();

  void add(String path, String place, String message) {
    found.add(new Problem(path, place, message));
  }

  boolean isEmpty() {
    return found.isEmpty();
  }

  int count() {
    return found.size();
  }

  /**
   * @throws ConfigException if any mistake was added
   */
  void throwIfAny() {
    if (!found.isEmpty()) {
      throw new ConfigException(found);
    }
  }
}
