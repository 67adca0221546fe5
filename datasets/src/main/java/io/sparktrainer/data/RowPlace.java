package io.sparktrainer.data;

/**
 * Where a reader is, for messages: the source partition and the row in it, both from 0, and the
 * file that is being read, if there is one.
 */
final class RowPlace {
  final int partition;
  long row;

  RowPlace(int partition) {
    this.partition = partition;
  }

  @Override
  public String toString() {
    String file = CatalystFile.current();
    return "row %d of partition %d%s"
        .formatted(row, partition, file.isEmpty() ? "" : ", file " + file);
  }
}
