package io.sparktrainer.data;

import static org.apache.spark.sql.functions.array;
import static org.apache.spark.sql.functions.col;
import static org.apache.spark.sql.functions.lit;
import static org.apache.spark.sql.functions.when;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import org.apache.spark.api.java.function.ForeachFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.util.LongAccumulator;
import org.junit.jupiter.api.Test;

class TestDatasets {
  private final SparkSession spark = SparkForTests.session();

  private Dataset<Row> numbers(long rows, int partitions) {
    return spark
        .range(0, rows, 1, partitions)
        .select(
            col("id"),
            col("id").cast("float").as("x"),
            col("id").multiply(0.5).as("half"),
            array(col("id").cast("double"), lit(1.0), lit(2.0)).as("list"),
            col("id").mod(3).cast("int").as("label"));
  }

  private static DataSpec.Builder idAsLabel() {
    return DataSpec.builder().features("x", "half").label("id").batchRows(4).seed(3);
  }

  private static List<Long> labels(BatchReader reader) {
    List<Long> labels = new ArrayList<>();
    try (reader) {
      while (reader.hasNext()) {
        Batch batch = reader.next();
        for (int i = 0; i < batch.rows(); i++) {
          labels.add(batch.label().data().getLong(i * 8));
        }
      }
    }
    return labels;
  }

  @Test
  void resolvesShapesAndTypesOnTheDriver() {
    DataSpec spec =
        DataSpec.builder()
            .features("x", "half")
            .input(InputSpec.of("list", "list").withType(ElementType.FLOAT64))
            .label("label")
            .weight("half")
            .build();
    TensorSchema schema = Datasets.prepare(numbers(10, 2), spec, 2).schema();
    assertThat(schema.inputs())
        .containsExactly(
            new TensorSpec("features", ElementType.FLOAT32, List.of(2L)),
            new TensorSpec("list", ElementType.FLOAT64, List.of(3L)));
    assertThat(schema.label()).isEqualTo(new TensorSpec("label", ElementType.INT64, List.of()));
    assertThat(schema.weight()).isEqualTo(new TensorSpec("weight", ElementType.FLOAT32, List.of()));
  }

  /** A frame keeps the plan of its first use, which may be older than its cache. */
  @Test
  void readsTheCacheOfAFrameThatWasReadBefore() {
    LongAccumulator computed = spark.sparkContext().longAccumulator();
    UDF1<Long, Float> counting =
        id -> {
          computed.add(1);
          return (float) id;
        };
    spark.udf().register("counting", counting, DataTypes.FloatType);
    Dataset<Row> frame = numbers(10, 1).selectExpr("counting(id) as x");
    DataSpec spec = DataSpec.builder().features("x").build();
    assertThat(Columns.read(frame, spec, ReadPath.FASTEST).get("features")).hasSize(10);
    assertThat(computed.value()).isEqualTo(10);
    frame.cache().foreach((ForeachFunction<Row>) row -> {});
    assertThat(computed.value()).isEqualTo(20);
    assertThat(Columns.read(frame, spec, ReadPath.FASTEST).get("features")).hasSize(10);
    assertThat(computed.value()).isEqualTo(20);
    frame.unpersist();
  }

  @Test
  void batchesHoldTheRowsInDirectMemory() {
    DataSpec spec =
        idAsLabel().input(InputSpec.of("list", "list")).order(DataSpec.Order.SEQUENTIAL).build();
    try (Ranks ranks = Ranks.of(numbers(10, 1), spec, 1);
        BatchReader reader = ranks.ranks.get(0).training().epoch(0)) {
      Batch first = reader.next();
      assertThat(first.rows()).isEqualTo(4);
      TensorBuffer features = first.input("features");
      assertThat(features.shape()).containsExactly(4, 2);
      assertThat(features.data().isDirect()).isTrue();
      assertThat(features.data().order()).isEqualTo(ByteOrder.nativeOrder());
      assertThat(features.data().remaining()).isEqualTo(4 * 2 * 4);
      for (int i = 0; i < 4; i++) {
        assertThat(features.data().getFloat(i * 8)).isEqualTo(i);
        assertThat(features.data().getFloat(i * 8 + 4)).isEqualTo(i * 0.5f);
        assertThat(first.input("list").data().getFloat(i * 12)).isEqualTo(i);
        assertThat(first.input("list").data().getFloat(i * 12 + 8)).isEqualTo(2);
      }
      assertThat(reader.next().rows()).isEqualTo(4);
      Batch last = reader.next();
      assertThat(last.rows()).isEqualTo(2);
      assertThat(last.label().shape()).containsExactly(2);
      assertThat(reader.hasNext()).isFalse();
    }
  }

  @Test
  void dealsRowsOutEquallyWhateverThePartitions() {
    for (int partitions : new int[] {1, 3, 7}) {
      try (Ranks ranks = Ranks.of(numbers(23, partitions), idAsLabel().build(), 3)) {
        List<Long> all = new ArrayList<>();
        for (RankData rank : ranks.ranks) {
          assertThat(rank.training().rows()).isBetween(7L, 8L);
          assertThat(rank.training().plan().steps()).isEqualTo(2);
          all.addAll(labels(rank.training().epoch(1)));
        }
        assertThat(all)
            .containsExactlyInAnyOrderElementsOf(LongStream.range(0, 23).boxed().toList());
      }
    }
  }

  @Test
  void sequentialOrderKeepsTheDataFramesOrderWithinARank() {
    DataSpec spec = idAsLabel().order(DataSpec.Order.SEQUENTIAL).build();
    try (Ranks ranks = Ranks.of(numbers(5000, 3), spec, 2)) {
      for (RankData rank : ranks.ranks) {
        assertThat(labels(rank.training().epoch(0))).isSorted();
      }
    }
  }

  @Test
  void shufflesByEpochAndSeedReproducibly() {
    try (Ranks first = Ranks.of(numbers(100, 3), idAsLabel().build(), 2);
        Ranks again = Ranks.of(numbers(100, 3), idAsLabel().build(), 2);
        Ranks other = Ranks.of(numbers(100, 3), idAsLabel().seed(4).build(), 2)) {
      List<Long> epoch0 = labels(first.ranks.get(0).training().epoch(0));
      assertThat(labels(first.ranks.get(0).training().epoch(0))).isEqualTo(epoch0);
      assertThat(labels(again.ranks.get(0).training().epoch(0))).isEqualTo(epoch0);
      assertThat(labels(first.ranks.get(0).training().epoch(1)))
          .isNotEqualTo(epoch0)
          .containsExactlyInAnyOrderElementsOf(epoch0);
      assertThat(labels(other.ranks.get(0).training().epoch(0)))
          .isNotEqualTo(epoch0)
          .containsExactlyInAnyOrderElementsOf(epoch0);
    }
  }

  @Test
  void splitsValidationRowsOffOnce() {
    DataSpec spec = idAsLabel().validation(Validation.fraction(0.2)).build();
    try (Ranks ranks = Ranks.of(numbers(1000, 4), spec, 2)) {
      List<Long> all = new ArrayList<>();
      List<Long> validation = new ArrayList<>();
      for (RankData rank : ranks.ranks) {
        all.addAll(labels(rank.training().epoch(0)));
        validation.addAll(labels(rank.validation().epoch(0)));
      }
      assertThat(validation).hasSize(200);
      all.addAll(validation);
      assertThat(all)
          .containsExactlyInAnyOrderElementsOf(LongStream.range(0, 1000).boxed().toList());
    }
  }

  @Test
  void splitsByAnIndicatorColumn() {
    Dataset<Row> frame = numbers(100, 3).withColumn("test", col("id").geq(90));
    DataSpec spec = idAsLabel().validation(Validation.column("test")).build();
    try (Ranks ranks = Ranks.of(frame, spec, 1)) {
      assertThat(labels(ranks.ranks.get(0).validation().epoch(0)))
          .containsExactlyElementsOf(LongStream.range(90, 100).boxed().toList());
      assertThat(ranks.ranks.get(0).training().rows()).isEqualTo(90);
    }
  }

  @Test
  void namesEveryMissingOrUnreadableColumnAtOnce() {
    Dataset<Row> frame = numbers(3, 1).withColumn("city", lit("Ulm"));
    DataSpec spec = DataSpec.builder().features("x", "hlaf", "city").label("label").build();
    assertThatThrownBy(() -> Datasets.prepare(frame, spec, 1))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("Cannot read column 'hlaf' (input 'features')")
        .hasMessageContaining("It has: id, x, half, list, label, city.")
        .hasMessageContaining("Cannot read column 'city' (input 'features')")
        .hasMessageContaining("StringIndexer");
  }

  @Test
  void namesColumnAndRowOfANullBeforeTraining() {
    Dataset<Row> frame =
        numbers(10, 1).withColumn("half", when(col("id").notEqual(6), col("half")));
    PreparedData data = Datasets.prepare(frame, idAsLabel().build(), 2);
    assertThatThrownBy(data::materialize)
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining(
            "Cannot read column 'half': expected a value, got null in row 6 of partition 0");
  }

  @Test
  void refusesNoRowsAndFewerRowsThanRanks() {
    assertThatThrownBy(() -> Ranks.of(numbers(10, 2).where("id > 99"), idAsLabel().build(), 2))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("expected training rows, got 0");
    assertThatThrownBy(() -> Ranks.of(numbers(3, 2), idAsLabel().build(), 4))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("Cannot train on 4 ranks: expected at least one row per rank, got 3");
  }

  @Test
  void plansAreSharedArithmetic() {
    EpochPlan plan = EpochPlan.of(new long[] {9, 8}, 4, Balance.REPARTITION);
    assertThat(plan.steps()).isEqualTo(3);
    assertThat(IntStream.range(0, 3).map(step -> plan.batchRows(0, step))).containsExactly(4, 4, 1);
    assertThat(IntStream.range(0, 3).map(step -> plan.batchRows(1, step))).containsExactly(4, 3, 1);
  }
}
