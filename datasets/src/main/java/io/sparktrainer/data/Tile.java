package io.sparktrainer.data;

/** A few records in a reused array, small enough to stay in the processor's cache. */
final class Tile {
  private static final int TARGET_BYTES = 16 << 10;
  private static final int MAX_ROWS = 512;

  /** Records start here; the room before them is for a block header. */
  static final int BASE = Block.HEADER_BYTES;

  final byte[] records;
  final boolean[] validation;
  final int capacity;

  Tile(int recordBytes) {
    this.capacity = Math.max(1, Math.min(MAX_ROWS, TARGET_BYTES / recordBytes));
    this.records = new byte[BASE + Math.multiplyExact(capacity, recordBytes)];
    this.validation = new boolean[capacity];
  }
}
