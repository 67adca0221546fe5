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
