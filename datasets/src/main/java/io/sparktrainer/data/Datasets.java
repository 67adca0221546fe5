package io.sparktrainer.data;

import java.util.Iterator;
import org.apache.spark.api.java.JavaPairRDD;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import scala.Tuple2;

/** Makes DataFrames ready for training, on the driver. */
public final class Datasets {
  private Datasets() {}

  /**
   * Checks a DataFrame against a spec and lays out its way to the ranks. No job runs, except a
   * small one for each array, vector or binary column whose length neither schema nor spec tells.
   *
   * @param frame the rows
   * @param spec what to read, and how
   * @param worldSize ranks
   * @throws IllegalArgumentException listing every column that is missing or can't be read, with
   *     what to do
   */
  public static PreparedData prepare(Dataset<Row> frame, DataSpec spec, int worldSize) {
    if (worldSize < 1) {
      throw new IllegalArgumentException(
          "Cannot read data: expected at least 1 rank, got %d.".formatted(worldSize));
    }
    ReadPlan plan = SchemaResolver.resolve(frame.schema(), spec, new FirstRowProbe(frame));
    SourceRdd<?> source = CatalystFrame.open(select(frame, plan), plan);
    SplitRule split =
        spec.validation() instanceof Validation.Fraction fraction
            ? new SplitRule(fraction.fraction(), spec.seed())
            : SplitRule.TRAINING_ONLY;
    RowCounts counts = new RowCounts();
    frame.sparkSession().sparkContext().register(counts, "rows by source partition");
    JavaRDD<byte[]> dealt = deal(source, plan, split, worldSize, counts);
    return new PreparedData(spec, plan, worldSize, dealt, new int[] {source.partitions()}, counts);
  }

  private static Dataset<Row> select(Dataset<Row> frame, ReadPlan plan) {
    Column[] columns =
        plan.selected().stream()
            .map(name -> frame.col("`" + name.replace("`", "``") + "`"))
            .toArray(Column[]::new);
    return frame.select(columns);
  }

  private static <T> JavaRDD<byte[]> deal(
      SourceRdd<T> source, ReadPlan plan, SplitRule split, int worldSize, RowCounts counts) {
    SourceRdd.Tiles<T> tiles = source.tiles();
    int recordBytes = plan.recordBytes();
    JavaRDD<Tuple2<Integer, byte[]>> blocks =
        source
            .rdd()
            .mapPartitionsWithIndex(
                (Integer index, Iterator<T> rows) ->
                    new DealingIterator(
                        tiles.open(rows, split, index), index, worldSize, recordBytes, counts),
                false);
    return JavaPairRDD.fromJavaRDD(blocks).partitionBy(new RankPartitioner(worldSize)).values();
  }
}
