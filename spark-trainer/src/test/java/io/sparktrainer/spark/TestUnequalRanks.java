package io.sparktrainer.spark;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import io.sparktrainer.spark.barrier.StageFailedException;
import io.sparktrainer.spark.config.TrainerConfig;
import io.sparktrainer.spark.testing.SparkTest;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Ranks that keep the DataFrame's partitions, however unequal these are. */
@SparkTest(master = "local[2]")
@Timeout(120)
class TestUnequalRanks {
  @TempDir Path folder;

  /** Two partitions of 50 rows, of which the condition leaves some. */
  private static Dataset<Row> rows(SparkSession spark, String condition) {
    return spark
        .sql("SELECT id, sin(id) AS x, cos(3 * id) AS z, int(id % 2) AS y FROM range(0, 100, 1, 2)")
        .filter(condition);
  }

  private TrainingResult fit(Dataset<Row> frame, String parallel, String balance, double lr) {
    return new SparkTrainer(config(parallel, balance, lr)).fit(frame);
  }

  private TrainerConfig config(String parallel, String balance, double lr) {
    return TrainerConfig.parse(
        """
        device: {parallel: %s}
        data: {features: [x, z], label: y, balance: %s}
        model: {type: mlp, hidden: [4], outputs: 2}
        optimizer: {type: sgd, lr: %s}
        training: {epochs: 2, batch_size: 10, seed: 3}
        metrics: {console: false}
        output: %s
        """
            .formatted(parallel, balance, lr, folder));
  }

  /** With a learning rate of 0 each row's loss is that of the first model, whoever reads it. */
  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        // a rank with less, with nothing, one row for two ranks
        "id < 50 OR id >= 75 | DIVIDE_BY_ACTIVE | 75 | 5",
        "id >= 50 | DIVIDE_BY_WORLD | 50 | 5",
        "id = 3 | DIVIDE_BY_ACTIVE | 1 | 1"
      })
  void joinedRanksReportTheMeanOverAllRows(
      String condition, String uneven, long expectedRows, long expectedSteps, SparkSession spark)
      throws IOException {
    String ddp =
        "{strategy: ddp, workers: 2, ddp: {uneven_inputs: "
            + uneven.toLowerCase(java.util.Locale.ROOT)
            + "}}";
    TrainingResult joined = fit(rows(spark, condition), ddp, "join", 0);
    String lines = Files.readString(folder.resolve("metrics.jsonl"));
    TrainingResult alone = fit(rows(spark, condition), "{strategy: none}", "repartition", 0);

    assertThat(joined.lastEpoch().rows()).isEqualTo(expectedRows);
    assertThat(joined.stepsPerEpoch()).isEqualTo(expectedSteps);
    assertThat(joined.steps()).isEqualTo(2 * expectedSteps);
    assertThat(joined.lastEpoch().loss()).isCloseTo(alone.lastEpoch().loss(), within(1e-6));
    assertThat(joined.lastEpoch().accuracy()).isCloseTo(alone.lastEpoch().accuracy(), within(1e-9));
    assertThat(lines.lines().findFirst().orElseThrow())
        .isEqualTo(
            "{\"type\":\"start\",\"trainingRows\":%d,\"testRows\":0,\"stepsPerEpoch\":%d,\"steps\":%d}"
                .formatted(expectedRows, expectedSteps, 2 * expectedSteps));
  }

  @ParameterizedTest
  @CsvSource({"pad, 5, 100", "drop, 3, 50"})
  void paddedAndCutRanksTakeTheSameSteps(
      String balance, long expectedSteps, long expectedRows, SparkSession spark) {
    TrainingResult result =
        fit(rows(spark, "id < 50 OR id >= 75"), "{strategy: ddp, workers: 2}", balance, 0.1);

    assertThat(result.stepsPerEpoch()).isEqualTo(expectedSteps);
    assertThat(result.lastEpoch().rows()).isEqualTo(expectedRows);
  }

  @Test
  void aRankWithoutRowsToRepeatIsNamed(SparkSession spark) {
    assertThatThrownBy(
            () -> fit(rows(spark, "id >= 50"), "{strategy: ddp, workers: 2}", "pad", 0.1))
        .isInstanceOf(StageFailedException.class)
        .hasMessageContaining(
            "Cannot plan an epoch with balance pad: expected rows on every rank, got [0, 50].");
  }
}
