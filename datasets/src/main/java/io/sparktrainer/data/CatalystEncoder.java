package io.sparktrainer.data;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.util.ArrayData;

/** Writes Spark's internal rows as records. One per task; not thread-safe. */
final class CatalystEncoder {
  private static final int VECTOR_FIELDS = 4;

  private final ColumnPlan[] columns;
  private final RowPlace place;

  CatalystEncoder(ReadPlan plan, RowPlace place) {
    this.columns = plan.columns().toArray(new ColumnPlan[0]);
    this.place = place;
  }

  /** Writes the row's record at {@code base}. Returns whether the row stays. */
  boolean encode(SpecializedGetters row, byte[] record, int base) {
    for (ColumnPlan column : columns) {
      if (!encode(column, row, record, base)) {
        return false;
      }
    }
    return true;
  }

  /** Writes one column's part of the record. Returns whether the row stays. */
  boolean encode(ColumnPlan column, SpecializedGetters row, byte[] record, int base) {
    int ordinal = column.ordinal();
    if (column.form() == ColumnPlan.Form.SCALAR) {
      return element(column, row, ordinal, record, base + column.offset());
    }
    if (row.isNullAt(ordinal)) {
      return column.putAllNull(record, base, place);
    }
    return switch (column.form()) {
      case SCALAR -> throw new IllegalStateException("unreachable");
      case ARRAY -> array(column, row.getArray(ordinal), 0, 0, record, base);
      case VECTOR -> vector(column, row.getStruct(ordinal, VECTOR_FIELDS), record, base);
      case BYTES -> bytes(column, row.getBinary(ordinal), record, base);
      case IMAGE, ENCODED_IMAGE -> throw new UnsupportedOperationException("images");
    };
  }

  /** Writes one number. */
  private boolean element(
      ColumnPlan column, SpecializedGetters from, int ordinal, byte[] record, int at) {
    if (from.isNullAt(ordinal)) {
      return column.putNull(record, at, place);
    }
    switch (column.source()) {
      case FLOAT -> {
        return column.put(record, at, from.getFloat(ordinal), place);
      }
      case DOUBLE -> {
        return column.put(record, at, from.getDouble(ordinal), place);
      }
      case DECIMAL -> {
        double value =
            from.getDecimal(ordinal, column.decimalPrecision(), column.decimalScale()).toDouble();
        return column.put(record, at, value, place);
      }
      case TIMESTAMP -> {
        double seconds = from.getLong(ordinal) / ColumnPlan.MICROS_PER_SECOND;
        return column.put(record, at, seconds, place);
      }
      case BOOLEAN -> column.put(record, at, from.getBoolean(ordinal) ? 1L : 0L, place);
      case BYTE -> column.put(record, at, (long) from.getByte(ordinal), place);
      case SHORT -> column.put(record, at, (long) from.getShort(ordinal), place);
      case INT, DATE -> column.put(record, at, (long) from.getInt(ordinal), place);
      case LONG -> column.put(record, at, from.getLong(ordinal), place);
    }
    return true;
  }

  private boolean array(
      ColumnPlan column, ArrayData array, int axis, int firstElement, byte[] record, int base) {
    int length = column.checkedLength(array.numElements(), axis, place);
    int[] dims = column.dims();
    int stride = 1;
    for (int inner = axis + 1; inner < dims.length; inner++) {
      stride *= dims[inner];
    }
    for (int i = 0; i < length; i++) {
      int element = firstElement + i * stride;
      int at = base + column.offset() + element * column.target().bytes();
      if (axis == dims.length - 1) {
        if (!element(column, array, i, record, at)) {
          return false;
        }
      } else if (array.isNullAt(i)) {
        for (int inner = 0; inner < stride; inner++) {
          if (!column.putNull(record, at + inner * column.target().bytes(), place)) {
            return false;
          }
        }
      } else if (!array(column, array.getArray(i), axis + 1, element, record, base)) {
        return false;
      }
    }
    if (length < dims[axis]) {
      column.putPadding(
          record, base, firstElement + length * stride, firstElement + dims[axis] * stride, place);
    }
    return true;
  }

  private boolean vector(ColumnPlan column, InternalRow vector, byte[] record, int base) {
    int width = column.target().bytes();
    int start = base + column.offset();
    boolean dense = vector.getByte(0) == 1;
    ArrayData values = vector.getArray(3);
    if (dense) {
      int length = column.checkedLength(values.numElements(), 0, place);
      for (int i = 0; i < length; i++) {
        if (!column.put(record, start + i * width, values.getDouble(i), place)) {
          return false;
        }
      }
      column.putPadding(record, base, length, column.dims()[0], place);
      return true;
    }
    int length = column.checkedLength(vector.getInt(1), 0, place);
    column.putZeros(record, base, 0, length);
    column.putPadding(record, base, length, column.dims()[0], place);
    ArrayData indices = vector.getArray(2);
    for (int i = 0; i < indices.numElements(); i++) {
      int index = indices.getInt(i);
      if (index < length
          && !column.put(record, start + index * width, values.getDouble(i), place)) {
        return false;
      }
    }
    return true;
  }

  private boolean bytes(ColumnPlan column, byte[] bytes, byte[] record, int base) {
    int width = column.target().bytes();
    int length = column.checkedLength(bytes.length, 0, place);
    for (int i = 0; i < length; i++) {
      column.put(record, base + column.offset() + i * width, bytes[i] & 0xffL, place);
    }
    column.putPadding(record, base, length, column.dims()[0], place);
    return true;
  }
}
