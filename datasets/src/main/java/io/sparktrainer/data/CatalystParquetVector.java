package io.sparktrainer.data;

import java.util.Objects;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A column of a batch as Spark's readers know it, over the pages of a {@link ParquetLeaf}: numbers,
 * lists of numbers, or a struct of those.
 */
final class CatalystParquetVector extends ColumnVector {
  private static final long NAN_BITS = 0x8000_0000L - 0x7f80_0001L;

  private final ParquetLeaf leaf;
  private final CatalystParquetVector[] children;
  private final boolean isList;
  private byte[] bytes = {};
  private int base;
  private int first;

  private CatalystParquetVector(
      DataType type, ParquetLeaf leaf, boolean isList, CatalystParquetVector... children) {
    super(type);
    this.leaf = leaf;
    this.isList = isList;
    this.children = children;
  }

  static CatalystParquetVector numbers(DataType type, ParquetLeaf leaf) {
    return new CatalystParquetVector(type, leaf, false);
  }

  static CatalystParquetVector lists(DataType type, DataType elementType, ParquetLeaf leaf) {
    return new CatalystParquetVector(type, leaf, true, numbers(elementType, leaf));
  }

  /** A struct that is null where its first child is, which holds numbers. */
  static CatalystParquetVector struct(DataType type, CatalystParquetVector... children) {
    return new CatalystParquetVector(type, children[0].leaf, false, children);
  }

  /** Makes row 0 the leaf's next row. */
  void show() {
    showFrom(leaf.row());
    for (CatalystParquetVector child : children) {
      if (isList) {
        child.showFrom(0);
      } else {
        child.show();
      }
    }
  }

  private void showFrom(int row) {
    first = row;
    bytes = leaf.values;
    base = leaf.base + row * leaf.width();
  }

  /** The elements of all lists of the page. */
  CatalystParquetVector elements() {
    return children[0];
  }

  /** First element of a row's list. */
  int arrayOffset(int row) {
    return leaf.starts[first + row];
  }

  int arrayLength(int row) {
    return leaf.starts[first + row + 1] - leaf.starts[first + row];
  }

  /**
   * Copies FLOAT32 values of successive slots, {@code stride} bytes apart.
   *
   * @return whether one of them is NaN
   */
  boolean copyFloats(int slot, int count, byte[] to, int at, int stride) {
    byte[] from = bytes;
    long next = requireSlots(slot, count, Float.BYTES);
    long out = requireRoom(to, at, count, stride);
    long nan = 0;
    for (long end = next + (long) count * Float.BYTES; next < end; next += Float.BYTES) {
      int bits = Platform.getInt(from, next);
      nan |= NAN_BITS + (bits & 0x7fff_ffffL); // sets bit 31
      Platform.putInt(to, out, bits);
      out += stride;
    }
    return (nan & 0x8000_0000L) != 0;
  }

  /**
   * The same for FLOAT64 values that become FLOAT32. A sum tells of NaN, so that infinities of both
   * signs beside each other are taken for one.
   */
  boolean copyDoubles(int slot, int count, byte[] to, int at, int stride) {
    byte[] from = bytes;
    long next = requireSlots(slot, count, Double.BYTES);
    long out = requireRoom(to, at, count, stride);
    // four at a time: a conversion waits for the one before it where they share a register
    float sum = 0;
    int i = 0;
    for (; i < count - 3; i += 4) {
      float first = (float) Platform.getDouble(from, next);
      float second = (float) Platform.getDouble(from, next + Double.BYTES);
      float third = (float) Platform.getDouble(from, next + 2 * Double.BYTES);
      float fourth = (float) Platform.getDouble(from, next + 3 * Double.BYTES);
      Platform.putFloat(to, out, first);
      Platform.putFloat(to, out + stride, second);
      Platform.putFloat(to, out + 2L * stride, third);
      Platform.putFloat(to, out + 3L * stride, fourth);
      sum += (first + second) + (third + fourth);
      next += 4 * Double.BYTES;
      out += 4L * stride;
    }
    for (; i < count; i++) {
      float value = (float) Platform.getDouble(from, next);
      Platform.putFloat(to, out, value);
      sum += value;
      next += Double.BYTES;
      out += stride;
    }
    return Float.isNaN(sum);
  }

  /** Where the first of these slots is in memory; they are copied without further checks. */
  private long requireSlots(int slot, int count, int size) {
    long at = base + (long) slot * size;
    Objects.checkFromToIndex(at, at + (long) count * size, (long) bytes.length);
    return Platform.BYTE_ARRAY_OFFSET + at;
  }

  private static long requireRoom(byte[] to, int at, int count, int stride) {
    Objects.checkFromToIndex(at, at + (count - 1L) * stride + Float.BYTES, (long) to.length);
    return Platform.BYTE_ARRAY_OFFSET + (long) at;
  }

  @Override
  public boolean hasNull() {
    return (isList ? leaf.nullRows : leaf.nullSlots) != null;
  }

  @Override
  public int numNulls() {
    throw notHeld("a count of nulls");
  }

  @Override
  public boolean isNullAt(int row) {
    boolean[] nulls = isList ? leaf.nullRows : leaf.nullSlots;
    return nulls != null && nulls[first + row];
  }

  @Override
  public boolean getBoolean(int row) {
    return bytes[base + row] != 0;
  }

  @Override
  public byte getByte(int row) {
    return (byte) getInt(row);
  }

  @Override
  public short getShort(int row) {
    return (short) getInt(row);
  }

  @Override
  public int getInt(int row) {
    return Bytes.getInt(bytes, base + row * Integer.BYTES);
  }

  @Override
  public long getLong(int row) {
    return Bytes.getLong(bytes, base + row * Long.BYTES);
  }

  @Override
  public float getFloat(int row) {
    return Bytes.getFloat(bytes, base + row * Float.BYTES);
  }

  @Override
  public double getDouble(int row) {
    return Bytes.getDouble(bytes, base + row * Double.BYTES);
  }

  @Override
  public ColumnarArray getArray(int row) {
    return new ColumnarArray(elements(), arrayOffset(row), arrayLength(row));
  }

  @Override
  public ColumnVector getChild(int ordinal) {
    return children[ordinal];
  }

  @Override
  public ColumnarMap getMap(int row) {
    throw notHeld("maps");
  }

  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    throw notHeld("decimals");
  }

  @Override
  public UTF8String getUTF8String(int row) {
    throw notHeld("strings");
  }

  @Override
  public byte[] getBinary(int row) {
    throw notHeld("binary values");
  }

  @Override
  public void close() {}

  private UnsupportedOperationException notHeld(String what) {
    return new UnsupportedOperationException(
        "Cannot read %s from Parquet's pages: expected numbers, lists of numbers or ML vectors, got a column of type %s."
            .formatted(what, dataType().simpleString()));
  }
}
