package io.sparktrainer.data;

import java.util.Iterator;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;

/** The door to Spark's internal rows: the only place that asks a Dataset for them. */
final class CatalystFrame {
  private CatalystFrame() {}

  /** The frame's rows as Spark holds them; a row is valid until the next is asked for. */
  static SourceRdd<?> open(Dataset<Row> frame, ReadPlan plan) {
    if (!(frame instanceof org.apache.spark.sql.classic.Dataset<Row> classic)) {
      throw new IllegalArgumentException(
          "Cannot read the DataFrame: expected a classic Spark session, got %s. Spark Connect runs no tasks of ours."
              .formatted(frame.getClass().getName()));
    }
    JavaRDD<InternalRow> rows = classic.queryExecution().toRdd().toJavaRDD();
    return new SourceRdd<>(rows, new RowTiles(plan));
  }

  private record RowTiles(ReadPlan plan) implements SourceRdd.Tiles<InternalRow> {
    @Override
    public TileSource open(Iterator<InternalRow> rows, SplitRule split, int partition) {
      return new CatalystRowSource(rows, plan, split, partition);
    }
  }
}
