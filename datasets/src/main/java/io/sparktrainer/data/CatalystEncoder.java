package io.sparktrainer.data;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.util.ArrayData;

/** Writes Spark's internal rows as records. One per task; not thread-safe. */
final class CatalystEncoder {
  private static final int VECTOR_FIELDS = 4;
  private static final byte DENSE = 1;
  private static final int IMAGE_FIELDS = 6;

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
      case SCALAR -> throw new IllegalStateException("scalars were handled above");
      case ARRAY -> array(column, row.getArray(ordinal), 0, 0, record, base);
      case VECTOR -> vector(column, row.getStruct(ordinal, VECTOR_FIELDS), record, base);
      case BYTES -> column.putBytes(row.getBinary(ordinal), record, base, place);
      case ENCODED_IMAGE -> Images.decode(column, row.getBinary(ordinal), record, base, place);
      case IMAGE -> image(column, row.getStruct(ordinal, IMAGE_FIELDS), record, base);
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
        return column.putMicros(record, at, from.getLong(ordinal), place);
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
    int stride = column.stride(axis);
    int width = column.target().bytes();
    boolean stays = true;
    if (axis == column.dims().length - 1) {
      stays = leaf(column, array, length, record, base + column.offset() + firstElement * width);
    } else {
      for (int i = 0; i < length && stays; i++) {
        int element = firstElement + i * stride;
        stays =
            array.isNullAt(i)
                ? column.putNulls(record, base, element, stride, place)
                : array(column, array.getArray(i), axis + 1, element, record, base);
      }
    }
    if (stays && length < column.dims()[axis]) {
      int end = firstElement + column.dims()[axis] * stride;
      column.putPadding(record, base, firstElement + length * stride, end, place);
    }
    return stays;
  }

  private boolean leaf(ColumnPlan column, ArrayData array, int length, byte[] record, int start) {
    boolean isFloat = column.source() == ColumnPlan.Source.FLOAT;
    if (column.target() == ElementType.FLOAT32 && isFloat) {
      for (int i = 0, at = start; i < length; i++, at += Float.BYTES) {
        float value = array.getFloat(i);
        if (!Float.isNaN(value) && !array.isNullAt(i)) {
          Bytes.putFloat(record, at, value);
        } else if (!element(column, array, i, record, at)) {
          return false;
        }
      }
      return true;
    }
    int width = column.target().bytes();
    for (int i = 0; i < length; i++) {
      if (!element(column, array, i, record, start + i * width)) {
        return false;
      }
    }
    return true;
  }

  /** The vector type's struct: type, size, indices, values. */
  private boolean vector(ColumnPlan column, InternalRow vector, byte[] record, int base) {
    int width = column.target().bytes();
    int start = base + column.offset();
    ArrayData values = vector.getArray(3);
    int length;
    if (vector.getByte(0) == DENSE) {
      length = column.checkedLength(values.numElements(), 0, place);
      for (int i = 0; i < length; i++) {
        if (!column.put(record, start + i * width, values.getDouble(i), place)) {
          return false;
        }
      }
    } else {
      length = column.checkedLength(vector.getInt(1), 0, place);
      column.putZeros(record, base, 0, length);
      ArrayData indices = vector.getArray(2);
      for (int i = 0; i < indices.numElements(); i++) {
        int index = indices.getInt(i);
        if (index < length
            && !column.put(record, start + index * width, values.getDouble(i), place)) {
          return false;
        }
      }
    }
    column.putPadding(record, base, length, column.dims()[0], place);
    return true;
  }

  /** Spark's image struct: origin, height, width, channels, OpenCV mode, bytes. */
  private boolean image(ColumnPlan column, InternalRow image, byte[] record, int base) {
    Images.raw(
        column,
        image.getInt(1),
        image.getInt(2),
        image.getInt(3),
        image.getBinary(5),
        record,
        base,
        place);
    return true;
  }
}
