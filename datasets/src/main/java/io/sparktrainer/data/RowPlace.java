package io.sparktrainer.data;

/** Where a reader is, for messages: the source partition and the row in it, both from 0. */
final class RowPlace {
  final int partition;
  long row;

  RowPlace(int partition) {
    this.partition = partition;
  }

  @Override
  public String toString() {
    return "row %d of partition %d".formatted(row, partition);
  }
}
