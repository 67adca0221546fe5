package io.sparktrainer.data;

/** The type of one tensor element as it lies in memory, in native byte order. */
public enum ElementType {
  FLOAT32(4, true),
  FLOAT64(8, true),
  INT64(8, false),
  INT32(4, false),
  INT16(2, false),
  INT8(1, false),
  UINT8(1, false),
  BOOL(1, false);

  private final int bytes;
  private final boolean floating;

  ElementType(int bytes, boolean floating) {
    this.bytes = bytes;
    this.floating = floating;
  }

  /** Size of one element in bytes. */
  public int bytes() {
    return bytes;
  }

  /** Whether elements are floating-point numbers. */
  public boolean isFloating() {
    return floating;
  }
}
