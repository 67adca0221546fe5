package io.sparktrainer.data;

/**
 * The layout of the byte arrays that carry rows from a source partition to a rank: a header, then
 * records. Plain byte arrays need no registration with Kryo.
 *
 * <p>A block of rows holds {@code rows} records of one set. The end block of a source partition
 * holds the partition's row counts of both sets and, where rows are dealt out, the records left
 * over after the last whole round: first training, then validation.
 */
final class Block {
  static final int HEADER_BYTES = 48;

  /** Sets of rows. */
  static final int TRAINING = 0;

  static final int VALIDATION = 1;
  static final int SETS = 2;

  private static final int KIND = 0;
  private static final int SET = 4;
  private static final int PARTITION = 8;
  private static final int ROWS = 12;
  private static final int SEQUENCE = 16;
  private static final int COUNTS = 24;
  private static final int RESTS = 40;
  private static final int ROWS_KIND = 1;
  private static final int END_KIND = 2;

  private Block() {}

  static void writeRowsHeader(byte[] block, int set, int partition, int rows, long sequence) {
    Bytes.putInt(block, KIND, ROWS_KIND);
    Bytes.putInt(block, SET, set);
    Bytes.putInt(block, PARTITION, partition);
    Bytes.putInt(block, ROWS, rows);
    Bytes.putLong(block, SEQUENCE, sequence);
  }

  static void writeEndHeader(byte[] block, int partition, long[] counts, int[] rests) {
    Bytes.putInt(block, KIND, END_KIND);
    Bytes.putInt(block, PARTITION, partition);
    for (int set = 0; set < SETS; set++) {
      Bytes.putLong(block, COUNTS + set * Long.BYTES, counts[set]);
      Bytes.putInt(block, RESTS + set * Integer.BYTES, rests[set]);
    }
  }

  static boolean isEnd(byte[] block) {
    return Bytes.getInt(block, KIND) == END_KIND;
  }

  static int set(byte[] block) {
    return Bytes.getInt(block, SET);
  }

  static int partition(byte[] block) {
    return Bytes.getInt(block, PARTITION);
  }

  static int rows(byte[] block) {
    return Bytes.getInt(block, ROWS);
  }

  static long sequence(byte[] block) {
    return Bytes.getLong(block, SEQUENCE);
  }

  /** Records of a set that the end block itself holds; end blocks only. */
  static int rest(byte[] block, int set) {
    return Bytes.getInt(block, RESTS + set * Integer.BYTES);
  }

  /** Rows of a set in the whole source partition; end blocks only. */
  static long count(byte[] block, int set) {
    return Bytes.getLong(block, COUNTS + set * Long.BYTES);
  }
}
