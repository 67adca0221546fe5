package io.sparktrainer.data;

import org.apache.spark.sql.types.DataType;

/** Finds the sizes of arrays and vectors that the schema doesn't tell. */
@FunctionalInterface
interface LengthProbe {
  /** Sizes from the outside in of the column's first value. */
  int[] dims(String column, DataType type);
}
