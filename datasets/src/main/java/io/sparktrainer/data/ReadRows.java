package io.sparktrainer.data;

/**
 * Which rows of the data set an unfinished epoch has read: one bit per row of the whole data set,
 * 12 MB for 100 million rows, kept until the epoch's end.
 */
final class ReadRows {
  private final long[] bits;

  private ReadRows(long rows) {
    this.bits = new long[Math.toIntExact((rows + Long.SIZE - 1) / Long.SIZE)];
  }

  /** Follows the stretches of a position, in time proportional to the rows times the stretches. */
  static ReadRows after(DataPosition position, int stretches, LayoutOf layouts) {
    long[] counts = position.partitionRows().stream().mapToLong(Long::longValue).toArray();
    ReadRows read = new ReadRows(java.util.Arrays.stream(counts).sum());
    for (DataPosition.Stretch stretch : position.stretches().subList(0, stretches)) {
      ShareMap map = new ShareMap(layouts.of(stretch), counts);
      EpochPlan plan = read.restOf(map, stretch);
      for (int rank = 0; rank < stretch.worldSize(); rank++) {
        long toRead = Math.min(plan.firstRow(rank, stretch.steps()), plan.rows(rank));
        if (toRead == 0) {
          continue;
        }
        EpochOrder order =
            new EpochOrder(stretch.rule(), map.rows(rank), position.seed(), position.epoch(), rank);
        for (long place = 0; toRead > 0; place++) {
          long row = map.dataRow(rank, order.at(place));
          if (!read.contains(row)) {
            read.add(row);
            toRead--;
          }
        }
      }
    }
    return read;
  }

  /** The layout of the world that read a stretch. */
  @FunctionalInterface
  interface LayoutOf {
    ShareLayout of(DataPosition.Stretch stretch);
  }

  /** The plan of a world for the rows that nobody has read. */
  EpochPlan restOf(ShareMap map, DataPosition.Stretch world) {
    long[] rest = new long[world.worldSize()];
    for (int rank = 0; rank < rest.length; rank++) {
      long rows = map.rows(rank);
      for (long row = 0; row < rows; row++) {
        if (!contains(map.dataRow(rank, row))) {
          rest[rank]++;
        }
      }
    }
    return EpochPlan.ofRest(rest, world.batchRows(), world.balance());
  }

  boolean contains(long row) {
    return (bits[(int) (row >>> 6)] & 1L << row) != 0;
  }

  private void add(long row) {
    bits[(int) (row >>> 6)] |= 1L << row;
  }
}
