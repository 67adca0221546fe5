package io.sparktrainer.data;

import org.jspecify.annotations.Nullable;

/** Goes through a share's rows in an epoch's order, leaving out those that are read already. */
final class EpochWalk {
  private final EpochOrder order;
  private final @Nullable ReadRows read;
  private final ShareMap map;
  private final int rank;
  private long place;

  EpochWalk(EpochOrder order, @Nullable ReadRows read, ShareMap map, int rank) {
    this.order = order;
    this.read = read;
    this.map = map;
    this.rank = rank;
  }

  /** Leaves rows out. */
  void skip(long rows) {
    if (read == null) {
      place += rows;
    } else {
      for (long i = 0; i < rows; i++) {
        next();
      }
    }
  }

  /** The next row of the share; after the last, the first again. There has to be one. */
  long next() {
    while (true) {
      long row = order.at(place++ % order.rows());
      if (read == null || !read.contains(map.dataRow(rank, row))) {
        return row;
      }
    }
  }
}
