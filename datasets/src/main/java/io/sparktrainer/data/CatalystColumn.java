package io.sparktrainer.data;

import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * Encodes one column of a batch into a tile. Floats, doubles, ints and longs, and arrays and dense
 * vectors of floats and doubles, take loops of their own; everything else goes value by value
 * through {@link CatalystEncoder}, as does a row that holds a null or a NaN.
 */
final class CatalystColumn {
  private static final byte DENSE = 1;

  private final ColumnPlan plan;
  private final boolean keepsNan;

  CatalystColumn(ColumnPlan plan) {
    this.plan = plan;
    this.keepsNan = plan.nans() instanceof MissingValues.Keep;
  }

  ColumnPlan plan() {
    return plan;
  }

  /** Encodes rows of the batch. Returns whether a row was dropped. */
  boolean encode(CatalystBatchSource source, ColumnarBatch batch, Tile tile, int rows) {
    ColumnVector vector = source.vector(batch, plan);
    if (plan.form() == ColumnPlan.Form.SCALAR && !vector.hasNull()) {
      switch (plan.source()) {
        case FLOAT -> {
          if (plan.target() == ElementType.FLOAT32) {
            return floats(source, batch, vector, tile, rows);
          }
        }
        case DOUBLE -> {
          if (plan.target() == ElementType.FLOAT32) {
            return doubles(source, batch, vector, tile, rows);
          }
        }
        case INT -> {
          if (plan.target() == ElementType.INT64) {
            return ints(source, vector, tile, rows);
          }
        }
        case LONG -> {
          if (plan.target() == ElementType.INT64) {
            return longs(source, vector, tile, rows);
          }
        }
        default -> {}
      }
    }
    if (plan.target() == ElementType.FLOAT32
        && plan.dims().length == 1
        && (vector instanceof WritableColumnVector || vector instanceof CatalystParquetVector)) {
      boolean isFloat = plan.source() == ColumnPlan.Source.FLOAT;
      boolean isDouble = plan.source() == ColumnPlan.Source.DOUBLE;
      if (plan.form() == ColumnPlan.Form.ARRAY && (isFloat || isDouble)) {
        return arrays(source, batch, vector, tile, rows, isFloat);
      }
      if (plan.form() == ColumnPlan.Form.VECTOR) {
        return vectors(source, batch, vector, tile, rows);
      }
    }
    boolean dropped = false;
    for (int i = 0; i < rows; i++) {
      dropped |= general(source, batch, tile, i);
    }
    return dropped;
  }

  /** Encodes one value the general way. Returns whether its row was dropped. */
  private boolean general(CatalystBatchSource source, ColumnarBatch batch, Tile tile, int row) {
    int base = Tile.BASE + row * source.recordBytes();
    if (source.encodeValue(plan, batch, row, tile.records, base)) {
      return false;
    }
    source.drop(row);
    return true;
  }

  private boolean floats(
      CatalystBatchSource source, ColumnarBatch batch, ColumnVector from, Tile tile, int rows) {
    byte[] to = tile.records;
    int stride = source.recordBytes();
    int first = source.firstRow();
    int start = Tile.BASE + plan.offset();
    if (from instanceof CatalystParquetVector pages
        && (!pages.copyFloats(first, rows, to, start, stride) || keepsNan)) {
      return false;
    }
    boolean dropped = false;
    for (int i = 0, at = start; i < rows; i++, at += stride) {
      float value = from.getFloat(first + i);
      if (Float.isNaN(value) && !keepsNan) {
        dropped |= general(source, batch, tile, i);
      } else {
        Bytes.putFloat(to, at, value);
      }
    }
    return dropped;
  }

  private boolean doubles(
      CatalystBatchSource source, ColumnarBatch batch, ColumnVector from, Tile tile, int rows) {
    byte[] to = tile.records;
    int stride = source.recordBytes();
    int first = source.firstRow();
    int start = Tile.BASE + plan.offset();
    if (from instanceof CatalystParquetVector pages
        && (!pages.copyDoubles(first, rows, to, start, stride) || keepsNan)) {
      return false;
    }
    boolean dropped = false;
    for (int i = 0, at = start; i < rows; i++, at += stride) {
      double value = from.getDouble(first + i);
      if (Double.isNaN(value) && !keepsNan) {
        dropped |= general(source, batch, tile, i);
      } else {
        Bytes.putFloat(to, at, (float) value);
      }
    }
    return dropped;
  }

  private boolean ints(CatalystBatchSource source, ColumnVector from, Tile tile, int rows) {
    int stride = source.recordBytes();
    int first = source.firstRow();
    for (int i = 0, at = Tile.BASE + plan.offset(); i < rows; i++, at += stride) {
      Bytes.putLong(tile.records, at, from.getInt(first + i));
    }
    return false;
  }

  private boolean longs(CatalystBatchSource source, ColumnVector from, Tile tile, int rows) {
    int stride = source.recordBytes();
    int first = source.firstRow();
    for (int i = 0, at = Tile.BASE + plan.offset(); i < rows; i++, at += stride) {
      Bytes.putLong(tile.records, at, from.getLong(first + i));
    }
    return false;
  }

  private boolean arrays(
      CatalystBatchSource source,
      ColumnarBatch batch,
      ColumnVector from,
      Tile tile,
      int rows,
      boolean isFloat) {
    ColumnVector elements = elements(from);
    boolean nullsInside = elements.hasNull();
    int stride = source.recordBytes();
    int first = source.firstRow();
    int expected = plan.dims()[0];
    boolean dropped = false;
    for (int i = 0, at = Tile.BASE + plan.offset(); i < rows; i++, at += stride) {
      int row = first + i;
      if (nullsInside || from.isNullAt(row) || length(from, row) != expected) {
        dropped |= general(source, batch, tile, i);
        continue;
      }
      int start = offset(from, row);
      boolean clean =
          isFloat
              ? copyFloats(elements, start, expected, tile.records, at)
              : copyDoubles(elements, start, expected, tile.records, at);
      if (!clean) {
        dropped |= general(source, batch, tile, i);
      }
    }
    return dropped;
  }

  private boolean vectors(
      CatalystBatchSource source, ColumnarBatch batch, ColumnVector from, Tile tile, int rows) {
    ColumnVector kinds = from.getChild(0);
    ColumnVector values = from.getChild(3);
    ColumnVector elements = elements(values);
    int stride = source.recordBytes();
    int first = source.firstRow();
    int expected = plan.dims()[0];
    boolean dropped = false;
    for (int i = 0, at = Tile.BASE + plan.offset(); i < rows; i++, at += stride) {
      int row = first + i;
      boolean clean =
          !from.isNullAt(row)
              && kinds.getByte(row) == DENSE
              && length(values, row) == expected
              && copyDoubles(elements, offset(values, row), expected, tile.records, at);
      if (!clean) {
        dropped |= general(source, batch, tile, i);
      }
    }
    return dropped;
  }

  private static ColumnVector elements(ColumnVector arrays) {
    return arrays instanceof CatalystParquetVector pages
        ? pages.elements()
        : ((WritableColumnVector) arrays).arrayData();
  }

  private static int offset(ColumnVector arrays, int row) {
    return arrays instanceof CatalystParquetVector pages
        ? pages.arrayOffset(row)
        : ((WritableColumnVector) arrays).getArrayOffset(row);
  }

  private static int length(ColumnVector arrays, int row) {
    return arrays instanceof CatalystParquetVector pages
        ? pages.arrayLength(row)
        : ((WritableColumnVector) arrays).getArrayLength(row);
  }

  /** Copies; returns false where a NaN needs the general way. */
  private boolean copyFloats(ColumnVector from, int start, int count, byte[] to, int at) {
    if (from instanceof CatalystParquetVector pages) {
      return !pages.copyFloats(start, count, to, at, Float.BYTES) || keepsNan;
    }
    boolean nan = false;
    for (int i = 0; i < count; i++) {
      float value = from.getFloat(start + i);
      nan |= Float.isNaN(value);
      Bytes.putFloat(to, at + i * Float.BYTES, value);
    }
    return !nan || keepsNan;
  }

  private boolean copyDoubles(ColumnVector from, int start, int count, byte[] to, int at) {
    if (from instanceof CatalystParquetVector pages) {
      return !pages.copyDoubles(start, count, to, at, Float.BYTES) || keepsNan;
    }
    boolean nan = false;
    for (int i = 0; i < count; i++) {
      double value = from.getDouble(start + i);
      nan |= Double.isNaN(value);
      Bytes.putFloat(to, at + i * Float.BYTES, (float) value);
    }
    return !nan || keepsNan;
  }
}
