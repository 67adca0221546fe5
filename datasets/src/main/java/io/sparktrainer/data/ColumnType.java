package io.sparktrainer.data;

import io.sparktrainer.data.ColumnPlan.Form;
import io.sparktrainer.data.ColumnPlan.Source;
import org.apache.spark.ml.attribute.AttributeGroup;
import org.apache.spark.ml.linalg.SQLDataTypes;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.jspecify.annotations.Nullable;

/**
 * What a column's Spark type says about its tensor.
 *
 * @param form how values are built
 * @param source type of a value or element
 * @param precision of a decimal, else 0
 * @param scale of a decimal, else 0
 * @param depth axes of the value; 0 for scalars
 * @param knownLength elements of a vector where the schema tells, else 0
 */
record ColumnType(Form form, Source source, int precision, int scale, int depth, int knownLength) {
  boolean isImage() {
    return form == Form.IMAGE || form == Form.ENCODED_IMAGE;
  }

  /**
   * Reads a field's type.
   *
   * @throws IllegalArgumentException saying what was expected, found, and what to do
   */
  static ColumnType of(StructField field, @Nullable ImageSpec image) {
    DataType type = field.dataType();
    if (type.equals(SQLDataTypes.VectorType())) {
      int size = AttributeGroup.fromStructField(field).size();
      return new ColumnType(Form.VECTOR, Source.DOUBLE, 0, 0, 1, Math.max(0, size));
    }
    if (type instanceof BinaryType) {
      Form form = image == null ? Form.BYTES : Form.ENCODED_IMAGE;
      return new ColumnType(form, Source.BYTE, 0, 0, form == Form.BYTES ? 1 : 3, 0);
    }
    if (isImageStruct(type)) {
      if (image == null) {
        throw new IllegalArgumentException(
            "expected the size of the images, got none. Give height, width and channels (image).");
      }
      return new ColumnType(Form.IMAGE, Source.BYTE, 0, 0, 3, 0);
    }
    int depth = 0;
    while (type instanceof ArrayType array) {
      type = array.elementType();
      depth++;
    }
    Source source = source(type, field.dataType());
    int precision = type instanceof DecimalType decimal ? decimal.precision() : 0;
    int scale = type instanceof DecimalType decimal ? decimal.scale() : 0;
    return new ColumnType(
        depth == 0 ? Form.SCALAR : Form.ARRAY, source, precision, scale, depth, 0);
  }

  /** Spark's image source: struct of origin, height, width, nChannels, mode, data. */
  private static boolean isImageStruct(DataType type) {
    return type instanceof StructType struct
        && java.util.Arrays.asList(struct.fieldNames())
            .equals(java.util.List.of("origin", "height", "width", "nChannels", "mode", "data"));
  }

  private static Source source(DataType type, DataType whole) {
    if (type instanceof BooleanType) {
      return Source.BOOLEAN;
    } else if (type instanceof ByteType) {
      return Source.BYTE;
    } else if (type instanceof ShortType) {
      return Source.SHORT;
    } else if (type instanceof IntegerType) {
      return Source.INT;
    } else if (type instanceof LongType) {
      return Source.LONG;
    } else if (type instanceof FloatType) {
      return Source.FLOAT;
    } else if (type instanceof DoubleType) {
      return Source.DOUBLE;
    } else if (type instanceof DecimalType) {
      return Source.DECIMAL;
    } else if (type instanceof DateType) {
      return Source.DATE;
    } else if (type instanceof TimestampType || type instanceof TimestampNTZType) {
      return Source.TIMESTAMP;
    }
    String remedy;
    if (type instanceof StringType) {
      remedy = "Index it first, for example with org.apache.spark.ml.feature.StringIndexer.";
    } else if (type instanceof MapType) {
      remedy = "Select the keys that you need as columns of their own.";
    } else if (type instanceof StructType) {
      remedy = "Select its fields as columns of their own.";
    } else {
      remedy = "Cast it to a number.";
    }
    throw new IllegalArgumentException(
        "expected numbers, booleans, dates, arrays of them, vectors, images or binary, got %s. %s"
            .formatted(whole.catalogString(), remedy));
  }
}
