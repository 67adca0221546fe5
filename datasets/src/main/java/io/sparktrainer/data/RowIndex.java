package io.sparktrainer.data;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;

/**
 * The rank's rows in DataFrame order, whatever the order in which their blocks arrived: maps a
 * row's place in the share to its place in the {@link RowStore}.
 */
final class RowIndex {
  private record Run(int partition, long sequence, long lastSequence, long storeRow, long rows) {}

  private static final Comparator<Run> ORDER =
      Comparator.comparingInt(Run::partition).thenComparingLong(Run::sequence);

  private final List<Run> runs = new ArrayList<>();
  private long[] starts = new long[0];
  private long[] storeRows = new long[0];
  private long rows;

  /** Adds rows that lie together in the store; sequence orders the runs of a partition. */
  void add(int partition, long sequence, long storeRow, int count) {
    rows += count;
    if (!runs.isEmpty()) {
      Run last = runs.get(runs.size() - 1);
      if (last.partition() == partition
          && last.lastSequence() == sequence - 1
          && last.storeRow() + last.rows() == storeRow) {
        runs.set(
            runs.size() - 1,
            new Run(partition, last.sequence(), sequence, last.storeRow(), last.rows() + count));
        return;
      }
    }
    runs.add(new Run(partition, sequence, sequence, storeRow, count));
  }

  /** Sorts; to be called once, before {@link #storeRow}. */
  void seal() {
    runs.sort(ORDER);
    starts = new long[runs.size()];
    storeRows = new long[runs.size()];
    int merged = 0;
    long start = 0;
    long expected = -1;
    for (Run run : runs) {
      if (run.storeRow() != expected) {
        starts[merged] = start;
        storeRows[merged++] = run.storeRow();
      }
      start += run.rows();
      expected = run.storeRow() + run.rows();
    }
    starts = Arrays.copyOf(starts, merged);
    storeRows = Arrays.copyOf(storeRows, merged);
    runs.clear();
  }

  long rows() {
    return rows;
  }

  /** Place in the store of the share's row. */
  long storeRow(long row) {
    if (starts.length == 1) {
      return storeRows[0] + row;
    }
    int found = Arrays.binarySearch(starts, row);
    int run = found >= 0 ? found : -found - 2;
    return storeRows[run] + row - starts[run];
  }
}
