package io.sparktrainer.data;

import java.io.Serializable;
import org.jspecify.annotations.Nullable;

/**
 * How one column fills its part of a record: where from, where to, and what is done on the way.
 *
 * @param column name, for messages
 * @param ordinal place in the selected columns
 * @param form how the value is built
 * @param source type of the value or of its elements
 * @param decimalPrecision of a decimal source, else 0
 * @param decimalScale of a decimal source, else 0
 * @param dims sizes of an array from the outside in; {@code [elements]} for vectors and bytes,
 *     empty for scalars
 * @param target element type in the tensor
 * @param offset bytes from the start of the record
 * @param ragged padding of arrays, or null
 * @param image decoding of images, or null
 * @param nulls policy for nulls
 * @param nans policy for NaN
 */
@SuppressWarnings("ArrayRecordComponent") // never compared; read in inner loops
record ColumnPlan(
    String column,
    int ordinal,
    Form form,
    Source source,
    int decimalPrecision,
    int decimalScale,
    int[] dims,
    ElementType target,
    int offset,
    InputSpec.@Nullable Ragged ragged,
    @Nullable ImageSpec image,
    MissingValues nulls,
    MissingValues nans)
    implements Serializable {
  /** How a column's value is built. */
  enum Form {
    SCALAR,
    ARRAY,
    VECTOR,
    BYTES,
    IMAGE,
    ENCODED_IMAGE
  }

  /** Type of a value, or of an array's elements. */
  enum Source {
    BOOLEAN,
    BYTE,
    SHORT,
    INT,
    LONG,
    FLOAT,
    DOUBLE,
    DECIMAL,
    /** Days since 1970-01-01. */
    DATE,
    /** Microseconds since 1970-01-01T00:00Z, read as seconds. */
    TIMESTAMP;

    boolean isIntegral() {
      return switch (this) {
        case BOOLEAN, BYTE, SHORT, INT, LONG, DATE -> true;
        case FLOAT, DOUBLE, DECIMAL, TIMESTAMP -> false;
      };
    }
  }

  static final double MICROS_PER_SECOND = 1e6;

  /** The same column at another place in what is read. */
  ColumnPlan withOrdinal(int newOrdinal) {
    return new ColumnPlan(
        column,
        newOrdinal,
        form,
        source,
        decimalPrecision,
        decimalScale,
        dims,
        target,
        offset,
        ragged,
        image,
        nulls,
        nans);
  }

  int elements() {
    int elements = 1;
    for (int dim : dims) {
      elements *= dim;
    }
    return elements;
  }

  /** Acts on a null element. Returns whether the row stays. */
  boolean putNull(byte[] record, int at, RowPlace place) {
    return putMissing(nulls, "null", record, at, place);
  }

  /** Acts on a null value of the whole column. Returns whether the row stays. */
  boolean putAllNull(byte[] record, int base, RowPlace place) {
    return putNulls(record, base, 0, elements(), place);
  }

  private boolean putMissing(
      MissingValues policy, String what, byte[] record, int at, RowPlace place) {
    if (policy instanceof MissingValues.Drop) {
      return false;
    }
    if (policy instanceof MissingValues.Fill fill) {
      putNumber(record, at, fill.value(), place);
      return true;
    }
    throw new IllegalArgumentException(
        "Cannot read column '%s': expected a value, got %s in %s. Fill or drop such rows (policy for %s)."
            .formatted(column, what, place, what.equals("null") ? "nulls" : "nans"));
  }

  /** Writes a floating value. Returns whether the row stays. */
  boolean put(byte[] record, int at, double value, RowPlace place) {
    if (Double.isNaN(value) && !(nans instanceof MissingValues.Keep)) {
      return putMissing(nans, "NaN", record, at, place);
    }
    putNumber(record, at, value, place);
    return true;
  }

  private void putNumber(byte[] record, int at, double value, RowPlace place) {
    if (target == ElementType.FLOAT32) {
      Bytes.putFloat(record, at, (float) value);
    } else if (target == ElementType.FLOAT64) {
      Bytes.putDouble(record, at, value);
    } else if (value == Math.rint(value) && Math.abs(value) < 0x1p63) {
      put(record, at, (long) value, place);
    } else {
      throw new IllegalArgumentException(
          "Cannot read column '%s' as %s: expected a whole number, got %s in %s."
              .formatted(column, target, value, place));
    }
  }

  /** Writes an integer value. */
  void put(byte[] record, int at, long value, RowPlace place) {
    switch (target) {
      case FLOAT32 -> Bytes.putFloat(record, at, (float) value);
      case FLOAT64 -> Bytes.putDouble(record, at, (double) value);
      case INT64 -> Bytes.putLong(record, at, value);
      case INT32 -> Bytes.putInt(record, at, (int) inRange(value, -0x80000000L, 0x7fffffff, place));
      case INT16 -> Bytes.putShort(record, at, (short) inRange(value, -32768, 32767, place));
      case INT8 -> record[at] = (byte) inRange(value, -128, 127, place);
      case UINT8 -> record[at] = (byte) inRange(value, 0, 255, place);
      case BOOL -> record[at] = (byte) inRange(value, 0, 1, place);
    }
  }

  private long inRange(long value, long low, long high, RowPlace place) {
    if (value < low || value > high) {
      throw new IllegalArgumentException(
          "Cannot read column '%s' as %s: expected %d to %d, got %d in %s."
              .formatted(column, target, low, high, value, place));
    }
    return value;
  }

  /** Acts on nulls in place of {@code count} elements. Returns whether the row stays. */
  boolean putNulls(byte[] record, int base, int element, int count, RowPlace place) {
    for (int i = element; i < element + count; i++) {
      if (!putNull(record, base + offset + i * target.bytes(), place)) {
        return false;
      }
    }
    return true;
  }

  /** Writes a time as seconds; whole ones, rounded down, where the target is an integer. */
  boolean putMicros(byte[] record, int at, long micros, RowPlace place) {
    if (target.isFloating()) {
      return put(record, at, micros / MICROS_PER_SECOND, place);
    }
    put(record, at, Math.floorDiv(micros, (long) MICROS_PER_SECOND), place);
    return true;
  }

  /** Writes bytes as numbers from 0 to 255. */
  boolean putBytes(byte[] bytes, byte[] record, int base, RowPlace place) {
    int length = checkedLength(bytes.length, 0, place);
    for (int i = 0; i < length; i++) {
      put(record, base + offset + i * target.bytes(), bytes[i] & 0xffL, place);
    }
    putPadding(record, base, length, dims[0], place);
    return true;
  }

  /** Elements between neighbours along an axis of an array. */
  int stride(int axis) {
    int stride = 1;
    for (int inner = axis + 1; inner < dims.length; inner++) {
      stride *= dims[inner];
    }
    return stride;
  }

  /** Writes zeros into elements {@code [from, to)} of the column. */
  void putZeros(byte[] record, int base, int from, int to) {
    int start = base + offset;
    java.util.Arrays.fill(
        record, start + from * target.bytes(), start + to * target.bytes(), (byte) 0);
  }

  /** Writes the pad value into elements {@code [from, to)} of the column. */
  void putPadding(byte[] record, int base, int from, int to, RowPlace place) {
    double value = ragged == null ? 0 : ragged.padValue();
    for (int i = from; i < to; i++) {
      putNumber(record, base + offset + i * target.bytes(), value, place);
    }
  }

  /**
   * Checks the length of an array along an axis.
   *
   * @return elements to read, at most the axis' size; the rest is padding
   */
  int checkedLength(int length, int axis, RowPlace place) {
    int expected = dims[axis];
    if (length == expected) {
      return length;
    }
    if (axis == 0 && ragged != null) {
      if (length < expected) {
        return length;
      }
      if (ragged.longer() == InputSpec.Ragged.Longer.CUT) {
        return expected;
      }
    }
    throw new IllegalArgumentException(
        "Cannot read column '%s': expected %d elements%s, got %d in %s. %s"
            .formatted(
                column,
                expected,
                dims.length > 1 ? " along axis " + axis : "",
                length,
                place,
                form == Form.ARRAY
                    ? "Pad or cut arrays of different lengths (ragged)."
                    : "All rows need the same length."));
  }
}
