package io.sparktrainer.data;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.api.java.JavaPairRDD;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.storage.StorageLevel;
import org.jspecify.annotations.Nullable;
import scala.Tuple2;

/** Makes DataFrames ready for training, on the driver. */
public final class Datasets {
  /** Left-over rows that one rank may have to read for others, before partitions are merged. */
  private static final long MAX_LEFT_OVER_ROWS = 1L << 20;

  private Datasets() {}

  /**
   * Checks a DataFrame against a spec and lays out its way to the ranks. No job runs, except a
   * small one for each array, vector or binary column whose length neither schema, spec nor the
   * first Parquet file's footer tells.
   *
   * @param frame the rows
   * @param spec what to read, and how
   * @param worldSize ranks
   * @throws IllegalArgumentException listing every column that is missing or can't be read, with
   *     what to do
   */
  public static PreparedData prepare(Dataset<Row> frame, DataSpec spec, int worldSize) {
    return prepare(frame, null, spec, worldSize, ReadPath.FASTEST);
  }

  /**
   * The same with the validation rows in a DataFrame of their own, which needs the same columns.
   *
   * @param frame training rows
   * @param validation validation rows
   * @param spec what to read, and how; its own validation has to be none
   * @param worldSize ranks
   * @throws IllegalArgumentException as above, or where the spec splits off validation rows too
   */
  public static PreparedData prepare(
      Dataset<Row> frame, Dataset<Row> validation, DataSpec spec, int worldSize) {
    return prepare(frame, validation, spec, worldSize, ReadPath.FASTEST);
  }

  static PreparedData prepare(
      Dataset<Row> frame,
      @Nullable Dataset<Row> validation,
      DataSpec spec,
      int worldSize,
      ReadPath path) {
    if (worldSize < 1) {
      throw new IllegalArgumentException(
          "Cannot read data: expected at least 1 rank, got %d.".formatted(worldSize));
    }
    if (validation != null && !(spec.validation() instanceof Validation.None)) {
      throw new IllegalArgumentException(
          "Cannot read validation rows: expected one place for them, got a second DataFrame and %s."
              .formatted(spec.validation()));
    }
    ReadPlan plan = SchemaResolver.resolve(frame.schema(), spec, path.probe(frame));
    SplitRule split =
        spec.validation() instanceof Validation.Fraction fraction
            ? new SplitRule(fraction.fraction(), spec.seed())
            : SplitRule.TRAINING_ONLY;
    List<Share> shares = new ArrayList<>();
    shares.add(new Share(path.open(select(frame, plan), plan), split));
    if (validation != null) {
      ReadPlan second = validationPlan(validation, spec, plan);
      shares.add(
          new Share(path.open(select(validation, second), second), SplitRule.VALIDATION_ONLY));
    }
    RowCounts counts = new RowCounts();
    frame.sparkSession().sparkContext().register(counts, "rows by source partition");
    boolean hasValidation = validation != null || !(spec.validation() instanceof Validation.None);
    return spec.balance() == Balance.REPARTITION
        ? dealt(shares, spec, plan, hasValidation, worldSize, counts)
        : grouped(shares, spec, plan, hasValidation, worldSize, counts);
  }

  private record Share(SourceRdd<?> source, SplitRule split) {}

  private static ReadPlan validationPlan(Dataset<Row> validation, DataSpec spec, ReadPlan plan) {
    LengthProbe asInTraining =
        (column, type) ->
            plan.columns().stream()
                .filter(known -> known.column().equalsIgnoreCase(column))
                .findFirst()
                .orElseThrow()
                .dims();
    ReadPlan second;
    try {
      second = SchemaResolver.resolve(validation.schema(), spec, asInTraining);
    } catch (IllegalArgumentException e) {
      throw new IllegalArgumentException("In the validation DataFrame: " + e.getMessage(), e);
    }
    if (!second.schema().equals(plan.schema())) {
      throw new IllegalArgumentException(
          "Cannot validate: expected tensors %s, got %s from the validation DataFrame."
              .formatted(plan.schema().tensors(), second.schema().tensors()));
    }
    return second;
  }

  /**
   * The plan's columns. A frame that has no others serves itself, as Spark plans it only once; but
   * it may have been planned before it was cached.
   */
  private static Dataset<Row> select(Dataset<Row> frame, ReadPlan plan) {
    if (List.of(frame.columns()).equals(plan.selected())
        && frame.storageLevel().equals(StorageLevel.NONE())) {
      return frame;
    }
    Column[] columns =
        plan.selected().stream()
            .map(name -> frame.col("`" + name.replace("`", "``") + "`"))
            .toArray(Column[]::new);
    return frame.select(columns);
  }

  private static PreparedData dealt(
      List<Share> shares,
      DataSpec spec,
      ReadPlan plan,
      boolean hasValidation,
      int worldSize,
      RowCounts counts) {
    List<JavaRDD<Tuple2<Integer, byte[]>>> sources = new ArrayList<>();
    int[] partitions = new int[2];
    for (Share share : shares) {
      JavaRDD<Tuple2<Integer, byte[]>> blocks =
          deal(share.source(), share.split(), partitions[0], plan, worldSize, counts);
      partitions[sources.size()] = blocks.getNumPartitions();
      sources.add(blocks);
    }
    // a union is on the near side of the shuffle, outside the barrier stage
    JavaRDD<Tuple2<Integer, byte[]>> all =
        sources.size() == 1 ? sources.get(0) : sources.get(0).union(sources.get(1));
    JavaRDD<byte[]> ranks =
        JavaPairRDD.fromJavaRDD(all).partitionBy(new RankPartitioner(worldSize)).values();
    ShareLayout layout = new ShareLayout.Dealt(worldSize, partitions[0], partitions[1]);
    return new PreparedData(spec, plan, layout, hasValidation, ranks, counts);
  }

  private static <T> JavaRDD<Tuple2<Integer, byte[]>> deal(
      SourceRdd<T> source,
      SplitRule split,
      int firstPartition,
      ReadPlan plan,
      int worldSize,
      RowCounts counts) {
    SourceRdd.Tiles<T> tiles = source.tiles();
    int recordBytes = plan.recordBytes();
    JavaRDD<T> rows = source.rdd();
    int most = (int) Math.max(2L * worldSize, 2 * MAX_LEFT_OVER_ROWS / worldSize);
    if (rows.getNumPartitions() > most) {
      rows = rows.coalesce(most);
    }
    return rows.mapPartitionsWithIndex(
        (Integer index, Iterator<T> partition) ->
            new DealingIterator(
                tiles.open(partition, split, index),
                firstPartition + index,
                worldSize,
                recordBytes,
                counts),
        false);
  }

  private static PreparedData grouped(
      List<Share> shares,
      DataSpec spec,
      ReadPlan plan,
      boolean hasValidation,
      int worldSize,
      RowCounts counts) {
    int training = shares.get(0).source().partitions();
    if (training < worldSize && spec.balance() != Balance.JOIN) {
      throw new IllegalArgumentException(
          ("Cannot read data with balance %s: expected at least one partition per rank, got %d for"
                  + " %d ranks. Use balance repartition.")
              .formatted(
                  spec.balance().name().toLowerCase(java.util.Locale.ROOT), training, worldSize));
    }
    int validation = shares.size() > 1 ? shares.get(1).source().partitions() : 0;
    ShareLayout.Grouped layout = new ShareLayout.Grouped(worldSize, training, validation);
    List<GatheredRdd.Part> parts = new ArrayList<>();
    int first = 0;
    for (Share share : shares) {
      parts.add(new GatheredRdd.Part(share.source(), share.split(), first, plan.recordBytes()));
      first += share.source().partitions();
    }
    JavaRDD<byte[]> ranks = new GatheredRdd(parts, layout).toJavaRDD();
    return new PreparedData(spec, plan, layout, hasValidation, ranks, counts);
  }
}
