package io.sparktrainer.spark;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.spark.barrier.StageFailedException;
import io.sparktrainer.spark.config.ModelSpec;
import io.sparktrainer.spark.config.TrainerConfig;
import io.sparktrainer.spark.testing.Frames;
import io.sparktrainer.spark.testing.SparkTest;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerExecutorRemoved;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Ranks in executor processes of their own, with everything that Kryo writes registered. */
@SparkTest(
    master = "local-cluster[2,1,2048]",
    conf = {
      "spark.serializer=org.apache.spark.serializer.KryoSerializer",
      "spark.kryo.registrationRequired=true",
      "spark.kryo.registrator=io.sparktrainer.spark.SparkTrainerKryoRegistrator"
    })
class TestTrainingOnExecutors {
  @TempDir Path folder;

  @Test
  void ranksAreProcessesOfTheirOwn(SparkSession spark) {
    List<TrainingResult.Participant> ranks = train(spark).ranks();

    assertThat(ranks).hasSize(2);
    assertThat(ranks)
        .extracting(TrainingResult.Participant::processId)
        .doesNotHaveDuplicates()
        .doesNotContain(ProcessHandle.current().pid());
    assertThat(ranks).extracting(TrainingResult.Participant::threads).containsOnly(1);
  }

  /** Rows of 5 MB per rank with room for 1 MB, two inputs, a weight and a second DataFrame. */
  @Test
  void spilledRowsOfSeveralInputsTrainInOtherProcesses(SparkSession spark) {
    String columns =
        "transform(sequence(1, 64), i -> float(sin(id * i))) AS numbers, int(id % 7) AS kind, "
            + "int(id % 7 < 3) AS label, double(1 + id % 2) AS w";
    TrainerConfig config =
        TrainerConfig.parse(
            """
            device: {parallel: {strategy: ddp, workers: 2, ddp: {uneven_inputs: divide_by_active}}}
            data: {inputs: {numbers: [numbers], categories: [kind]}, label: label, weight: w,
                   memory_budget_mb: 1, balance: join}
            model: {type: tabular, hidden: [8]}
            optimizer: {type: adam, lr: 0.01}
            training: {epochs: 2, batch_size: 256}
            metrics: {console: false}
            """,
            "output=" + folder);
    TrainingResult result =
        new SparkTrainer(config)
            .fit(
                spark.range(0, 40_000, 1, 3).selectExpr(columns.split(", (?=int|double)")),
                spark.range(0, 500, 1, 2).selectExpr(columns.split(", (?=int|double)")));

    assertThat(result.lastEpoch().rows()).isEqualTo(40_000);
    assertThat(result.lastEpoch().evalAccuracy()).isEqualTo(1);
    // three partitions for two ranks: one has two thirds of the rows
    assertThat(result.stepsPerEpoch()).isEqualTo((2 * 40_000 / 3 + 255) / 256);
  }

  @Test
  void aKilledExecutorIsNamedQuicklyAndTheNextTrainingRuns(SparkSession spark) throws Exception {
    CompletableFuture<Long> lostNanos = new CompletableFuture<>();
    SparkListener listener =
        new SparkListener() {
          @Override
          public void onExecutorRemoved(SparkListenerExecutorRemoved removed) {
            lostNanos.complete(System.nanoTime());
          }
        };
    spark.sparkContext().addSparkListener(listener);

    assertThatThrownBy(() -> fit(spark, FaultyModels.KillsProcessOfRankOne.class))
        .isInstanceOf(StageFailedException.class)
        .hasMessageContaining("Cannot finish the training: executor ")
        .hasMessageContaining("which ran rank 1, was lost: ")
        .hasMessageContaining("137");

    long reportedNanos = System.nanoTime();
    // The event may come to this listener after the failure was reported: then sooner is better.
    assertThat(Duration.ofNanos(reportedNanos - lostNanos.get(10, TimeUnit.SECONDS)))
        .isLessThan(Duration.ofSeconds(10));
    spark.sparkContext().removeSparkListener(listener);
    assertThat(train(spark).epochs()).hasSize(3);
  }

  @Test
  void theFirstCauseIsReportedFromAnotherProcess(SparkSession spark) {
    assertThatThrownBy(() -> fit(spark, FaultyModels.ThrowsOnRankOne.class))
        .isInstanceOf(StageFailedException.class)
        .hasMessageContaining("Rank 1 of 2 failed on host ")
        .hasMessageContaining("device cpu, epoch 1, step 5: the fuse blew");
  }

  private TrainingResult train(SparkSession spark) {
    return new SparkTrainer(Configs.ddp(2, folder).build()).fit(Frames.halves(spark, 200));
  }

  private void fit(SparkSession spark, Class<?> model) {
    TrainerConfig config = Configs.ddp(2, folder).model(new ModelSpec.OfClass(model)).build();
    TrainingResult unused = new SparkTrainer(config).fit(Frames.halves(spark, 200));
  }
}
