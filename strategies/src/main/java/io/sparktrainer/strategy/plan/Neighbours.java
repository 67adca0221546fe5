package io.sparktrainer.strategy.plan;

import java.util.List;

/** Arithmetic over buffers of which two that follow each other are alive at once. */
final class Neighbours {
  private Neighbours() {}

  /** The largest value; 0 for none. */
  static long largest(List<Long> sizes) {
    return sizes.stream().mapToLong(Long::longValue).max().orElse(0);
  }

  /** The largest sum of two values in a row; the only value where there is one; 0 for none. */
  static long largestPair(List<Long> sizes) {
    long largest = sizes.isEmpty() ? 0 : sizes.get(0);
    for (int i = 1; i < sizes.size(); i++) {
      largest = Math.max(largest, sizes.get(i - 1) + sizes.get(i));
    }
    return largest;
  }
}
