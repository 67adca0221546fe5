package io.sparktrainer.data;

import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.util.AccumulatorV2;

/**
 * Row counts of every source partition, gathered on the driver while the partitions are read. A
 * partition that is read again by a retried task counts once.
 */
final class RowCounts extends AccumulatorV2<Map<Integer, long[]>, Map<Integer, long[]>> {
  private static final long serialVersionUID = 1L;

  private final TreeMap<Integer, long[]> counts = new TreeMap<>();

  void add(int partition, long[] rows) {
    counts.put(partition, rows);
  }

  @Override
  public boolean isZero() {
    return counts.isEmpty();
  }

  @Override
  public AccumulatorV2<Map<Integer, long[]>, Map<Integer, long[]>> copy() {
    RowCounts copy = new RowCounts();
    copy.counts.putAll(counts);
    return copy;
  }

  @Override
  public void reset() {
    counts.clear();
  }

  @Override
  public void add(Map<Integer, long[]> rows) {
    counts.putAll(rows);
  }

  @Override
  public void merge(AccumulatorV2<Map<Integer, long[]>, Map<Integer, long[]>> other) {
    counts.putAll(other.value());
  }

  @Override
  public Map<Integer, long[]> value() {
    return counts;
  }

  /** Rows of a set over all partitions. */
  long total(int set) {
    return counts.values().stream().mapToLong(rows -> rows[set]).sum();
  }
}
