package io.sparktrainer.data;

import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;

/** The ways to a DataFrame's rows, fastest first. */
enum ReadPath {
  /** Column batches where the plan offers them, else internal rows, else public rows. */
  FASTEST,
  /** Spark's internal rows. */
  INTERNAL_ROWS,
  /** Rows of the public API, for Spark versions whose internals differ. */
  PUBLIC_ROWS;

  SourceRdd<?> open(Dataset<Row> frame, ReadPlan plan) {
    if (this != PUBLIC_ROWS) {
      try {
        return CatalystFrame.open(frame, plan, this);
      } catch (LinkageError e) {
        // another Spark version: its public API still serves
        return PublicFrame.open(frame, plan);
      }
    }
    return PublicFrame.open(frame, plan);
  }

  LengthProbe probe(Dataset<Row> frame) {
    LengthProbe firstRow = new FirstRowProbe(frame);
    try {
      return this == FASTEST ? new CatalystFooterProbe(frame, firstRow) : firstRow;
    } catch (LinkageError e) {
      return firstRow;
    }
  }
}
