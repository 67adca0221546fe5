package io.sparktrainer.data;

import java.io.Serializable;
import java.util.List;

/**
 * What a way of reading reached.
 *
 * @param perSecond rows per second
 * @param cpuNanos processor time per row, over all threads of the process
 */
record Rate(double perSecond, double cpuNanos) implements Serializable {
  static Rate of(long rows, long nanos, long cpuNanos) {
    return new Rate(rows * 1e9 / nanos, (double) cpuNanos / rows);
  }

  static Rate median(List<Rate> rates) {
    return new Rate(
        rates.stream().mapToDouble(Rate::perSecond).sorted().toArray()[rates.size() / 2],
        rates.stream().mapToDouble(Rate::cpuNanos).sorted().toArray()[rates.size() / 2]);
  }
}
