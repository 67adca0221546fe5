package io.sparktrainer.data;

import java.util.Arrays;

/**
 * Where the rows of a set are: which row of the data set, numbered through all source partitions,
 * is the n-th of a rank's share. Pure arithmetic over the partitions' row counts, so that any rank
 * knows every rank's share, in this world or in another one.
 */
final class ShareMap {
  private final ShareLayout layout;
  private final long[] counts;
  private final long[] firstRow;
  private int rank = -1;
  private long[] starts = new long[0];

  /** Takes the row counts of all source partitions. */
  ShareMap(ShareLayout layout, long[] counts) {
    this.layout = layout;
    this.counts = counts.clone();
    this.firstRow = new long[counts.length + 1];
    for (int p = 0; p < counts.length; p++) {
      firstRow[p + 1] = firstRow[p] + counts[p];
    }
  }

  /** Rows of the data set. */
  long totalRows() {
    return firstRow[counts.length];
  }

  /** Rows of a rank's share. */
  long rows(int ofRank) {
    select(ofRank);
    return starts[counts.length];
  }

  /** Number, in the data set, of a row of a rank's share. Fast while the rank stays the same. */
  long dataRow(int ofRank, long shareRow) {
    select(ofRank);
    int found = Arrays.binarySearch(starts, shareRow);
    int p = found >= 0 ? found : -found - 2;
    // partitions without rows of this rank start where their successor does
    while (starts[p + 1] == starts[p]) {
      p++;
    }
    long inPartition = shareRow - starts[p];
    if (layout instanceof ShareLayout.Grouped) {
      return firstRow[p] + inPartition;
    }
    int world = layout.worldSize();
    long rounds = counts[p] / world;
    if (inPartition < rounds) {
      return firstRow[p] + inPartition * world + ofRank;
    }
    return firstRow[p] + rounds * world + Math.floorMod(ofRank - dealtBefore(p), world);
  }

  private void select(int newRank) {
    if (rank == newRank) {
      return;
    }
    rank = newRank;
    starts = new long[counts.length + 1];
    int world = layout.worldSize();
    long dealt = 0;
    for (int p = 0; p < counts.length; p++) {
      long mine;
      if (layout instanceof ShareLayout.Grouped grouped) {
        boolean isMine =
            p >= grouped.firstTraining(newRank) && p < grouped.firstTraining(newRank + 1);
        mine = isMine ? counts[p] : 0;
      } else {
        long rest = counts[p] % world;
        boolean getsOne = Math.floorMod(newRank - dealt, world) < rest;
        mine = counts[p] / world + (getsOne ? 1 : 0);
        dealt += rest;
      }
      starts[p + 1] = starts[p] + mine;
    }
  }

  /** Left-over rows of the partitions before one, modulo the ranks. */
  private long dealtBefore(int partition) {
    long dealt = 0;
    for (int p = 0; p < partition; p++) {
      dealt += counts[p] % layout.worldSize();
    }
    return dealt;
  }
}
