package io.sparktrainer.data;

import java.math.BigDecimal;
import java.sql.Date;
import java.sql.Timestamp;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import org.apache.spark.ml.linalg.Vector;
import org.apache.spark.sql.Row;
import org.jspecify.annotations.Nullable;
import scala.collection.Seq;

/** Writes rows of the public API as records; gives the same bytes as {@link CatalystEncoder}. */
final class PublicEncoder {
  private final ColumnPlan[] columns;
  private final RowPlace place;

  PublicEncoder(ReadPlan plan, RowPlace place) {
    this.columns = plan.columns().toArray(new ColumnPlan[0]);
    this.place = place;
  }

  boolean encode(Row row, byte[] record, int base) {
    for (ColumnPlan column : columns) {
      if (!encode(column, row, record, base)) {
        return false;
      }
    }
    return true;
  }

  boolean encode(ColumnPlan column, Row row, byte[] record, int base) {
    Object value = row.get(column.ordinal());
    if (value == null) {
      return column.putAllNull(record, base, place);
    }
    return switch (column.form()) {
      case SCALAR -> number(column, value, record, base + column.offset());
      case ARRAY -> array(column, (Seq<?>) value, 0, 0, record, base);
      case VECTOR -> vector(column, (Vector) value, record, base);
      case BYTES -> column.putBytes((byte[]) value, record, base, place);
      case ENCODED_IMAGE -> Images.decode(column, (byte[]) value, record, base, place);
      case IMAGE -> {
        Row image = (Row) value;
        Images.raw(
            column,
            image.getInt(1),
            image.getInt(2),
            image.getInt(3),
            image.getAs(5),
            record,
            base,
            place);
        yield true;
      }
    };
  }

  private boolean number(ColumnPlan column, @Nullable Object value, byte[] record, int at) {
    if (value == null) {
      return column.putNull(record, at, place);
    } else if (value instanceof Float || value instanceof Double) {
      return column.put(record, at, ((Number) value).doubleValue(), place);
    } else if (value instanceof BigDecimal decimal) {
      return column.put(record, at, decimal.doubleValue(), place);
    } else if (value instanceof Number integer) {
      column.put(record, at, integer.longValue(), place);
    } else if (value instanceof Boolean flag) {
      column.put(record, at, flag ? 1L : 0L, place);
    } else if (value instanceof Date date) {
      column.put(record, at, date.toLocalDate().toEpochDay(), place);
    } else if (value instanceof LocalDate date) {
      column.put(record, at, date.toEpochDay(), place);
    } else if (value instanceof Timestamp time) {
      column.putMicros(record, at, micros(time.toInstant()), place);
    } else if (value instanceof Instant time) {
      column.putMicros(record, at, micros(time), place);
    } else if (value instanceof LocalDateTime time) {
      column.putMicros(record, at, micros(time.toInstant(ZoneOffset.UTC)), place);
    } else {
      throw new IllegalArgumentException(
          "Cannot read column '%s': expected a number, got %s in %s."
              .formatted(column.column(), value.getClass().getName(), place));
    }
    return true;
  }

  private static long micros(Instant time) {
    return Math.addExact(
        Math.multiplyExact(time.getEpochSecond(), 1_000_000L), time.getNano() / 1000);
  }

  private boolean array(
      ColumnPlan column, Seq<?> values, int axis, int firstElement, byte[] record, int base) {
    int length = column.checkedLength(values.length(), axis, place);
    int stride = column.stride(axis);
    int width = column.target().bytes();
    for (int i = 0; i < length; i++) {
      int element = firstElement + i * stride;
      Object value = values.apply(i);
      boolean stays;
      if (axis == column.dims().length - 1) {
        stays = number(column, value, record, base + column.offset() + element * width);
      } else if (value == null) {
        stays = column.putNulls(record, base, element, stride, place);
      } else {
        stays = array(column, (Seq<?>) value, axis + 1, element, record, base);
      }
      if (!stays) {
        return false;
      }
    }
    column.putPadding(
        record,
        base,
        firstElement + length * stride,
        firstElement + column.dims()[axis] * stride,
        place);
    return true;
  }

  private boolean vector(ColumnPlan column, Vector vector, byte[] record, int base) {
    int length = column.checkedLength(vector.size(), 0, place);
    for (int i = 0; i < length; i++) {
      int at = base + column.offset() + i * column.target().bytes();
      if (!column.put(record, at, vector.apply(i), place)) {
        return false;
      }
    }
    column.putPadding(record, base, length, column.dims()[0], place);
    return true;
  }
}
