package io.sparktrainer.data;

import static org.apache.spark.sql.functions.col;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class TestBalance {
  private final SparkSession spark = SparkForTests.session();

  private Dataset<Row> ids(long rows, int partitions) {
    return spark.range(0, rows, 1, partitions).select(col("id"), col("id").cast("float").as("x"));
  }

  /** Partitions of 0, 1, 2, ... rows: nothing even about them. */
  private Dataset<Row> uneven() {
    return ids(28, 28).repartition(1).sort("id").where("id >= 7").repartitionByRange(8, col("id"));
  }

  private static DataSpec spec(Balance balance) {
    return DataSpec.builder().features("x").label("id").batchRows(4).balance(balance).build();
  }

  private static List<List<Long>> epoch(Ranks ranks, int epoch) {
    List<List<Long>> all = new ArrayList<>();
    for (RankData rank : ranks.ranks) {
      List<Long> labels = new ArrayList<>();
      try (BatchReader reader = rank.training().epoch(epoch)) {
        long steps = 0;
        while (reader.hasNext()) {
          Batch batch = reader.next();
          steps++;
          for (int i = 0; i < batch.rows(); i++) {
            labels.add(batch.label().data().getLong(i * 8));
          }
        }
        assertThat(steps).isEqualTo(ranks.ranks.get(0).training().plan().steps());
      }
      all.add(labels);
    }
    return all;
  }

  @Test
  void joinReadsEveryRowOnceAndEndsWithEmptyBatches() {
    try (Ranks ranks = Ranks.of(ids(30, 3), spec(Balance.JOIN), 2)) {
      assertThat(ranks.ranks.get(0).training().rows()).isEqualTo(10);
      assertThat(ranks.ranks.get(1).training().rows()).isEqualTo(20);
      EpochPlan plan = ranks.ranks.get(0).training().plan();
      assertThat(plan.steps()).isEqualTo(5);
      assertThat(IntStream.range(0, 5).map(step -> plan.batchRows(0, step)))
          .containsExactly(4, 4, 2, 0, 0);
      assertThat(epoch(ranks, 0).stream().flatMap(List::stream))
          .containsExactlyInAnyOrderElementsOf(LongStream.range(0, 30).boxed().toList());
    }
  }

  @Test
  void padRepeatsRowsOfTheSmallerRank() {
    try (Ranks ranks = Ranks.of(ids(30, 3), spec(Balance.PAD), 2)) {
      List<List<Long>> read = epoch(ranks, 0);
      assertThat(read.get(0)).hasSize(20);
      assertThat(read.get(0).subList(10, 20)).isEqualTo(read.get(0).subList(0, 10));
      assertThat(read.get(1)).hasSize(20).doesNotHaveDuplicates();
    }
  }

  @Test
  void dropLeavesOtherRowsOutInEachEpoch() {
    try (Ranks ranks = Ranks.of(ids(30, 3), spec(Balance.DROP), 2)) {
      List<List<Long>> first = epoch(ranks, 0);
      List<List<Long>> second = epoch(ranks, 1);
      assertThat(first.get(0)).hasSize(10);
      assertThat(first.get(1)).hasSize(10).doesNotHaveDuplicates();
      assertThat(second.get(1)).hasSize(10).isNotEqualTo(first.get(1));
      assertThat(new java.util.TreeSet<>(first.get(1)))
          .isNotEqualTo(new java.util.TreeSet<>(second.get(1)));
    }
  }

  @ParameterizedTest
  @EnumSource(
      value = Balance.class,
      names = {"PAD", "DROP"})
  void fewerPartitionsThanRanksAreRefusedOnTheDriver(Balance balance) {
    assertThatThrownBy(() -> Datasets.prepare(ids(10, 1), spec(balance), 2))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("expected at least one partition per rank, got 1 for 2 ranks")
        .hasMessageContaining("Use balance repartition");
  }

  @Test
  void emptyRanksJoinButCannotBePadded() {
    try (Ranks ranks = Ranks.of(ids(10, 1), spec(Balance.JOIN), 2)) {
      assertThat(epoch(ranks, 0).stream().map(List::size)).containsExactly(0, 10);
    }
    Dataset<Row> half = ids(10, 2).where("id < 5");
    assertThatThrownBy(() -> Ranks.of(half, spec(Balance.PAD), 2))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("with balance pad: expected rows on every rank, got [5, 0]");
  }

  @ParameterizedTest
  @EnumSource(Balance.class)
  void readsBehindAShuffleOfTheDataFramesOwn(Balance balance) {
    try (Ranks ranks = Ranks.of(uneven(), spec(balance), 2)) {
      List<Long> all = epoch(ranks, 0).stream().flatMap(List::stream).distinct().toList();
      if (balance != Balance.DROP) {
        assertThat(all)
            .containsExactlyInAnyOrderElementsOf(LongStream.range(7, 28).boxed().toList());
      }
    }
  }

  @ParameterizedTest
  @EnumSource(Balance.class)
  void aSecondDataFrameBringsTheValidationRows(Balance balance) {
    PreparedData data =
        Datasets.prepare(
            ids(30, 3), ids(100, 4).where("id >= 90").repartition(2), spec(balance), 2);
    data.materialize();
    try (Ranks ranks = Ranks.of(data)) {
      List<Long> seen = new ArrayList<>();
      for (RankData rank : ranks.ranks) {
        try (BatchReader reader = rank.validation().epoch(0)) {
          while (reader.hasNext()) {
            Batch batch = reader.next();
            for (int i = 0; i < batch.rows(); i++) {
              seen.add(batch.label().data().getLong(i * 8));
            }
          }
        }
      }
      assertThat(seen)
          .containsExactlyInAnyOrderElementsOf(LongStream.range(90, 100).boxed().toList());
    }
  }

  @Test
  void splitsTheSameRowsOffWithoutAShuffle() {
    DataSpec spec = spec(Balance.JOIN).toBuilder().validation(Validation.fraction(0.3)).build();
    try (Ranks ranks = Ranks.of(ids(3000, 4), spec, 2)) {
      long training = 0;
      long validation = 0;
      for (RankData rank : ranks.ranks) {
        training += rank.training().rows();
        validation += rank.validation().rows();
      }
      assertThat(training + validation).isEqualTo(3000);
      assertThat(validation).isBetween(750L, 1050L);
    }
  }

  @Test
  void theValidationDataFrameNeedsTheSameColumns() {
    assertThatThrownBy(
            () -> Datasets.prepare(ids(9, 1), ids(9, 1).drop("x"), spec(Balance.REPARTITION), 1))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("In the validation DataFrame: Cannot read column 'x'");
  }
}
