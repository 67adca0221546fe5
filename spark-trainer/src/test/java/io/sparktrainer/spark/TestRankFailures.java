package io.sparktrainer.spark;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;

import io.sparktrainer.spark.barrier.StageFailedException;
import io.sparktrainer.spark.config.ModelSpec;
import io.sparktrainer.spark.testing.Frames;
import io.sparktrainer.spark.testing.SparkTest;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** What a failing or killed rank leaves behind, ranks being threads of one JVM. */
@SparkTest(master = "local[2]")
@Timeout(value = 120, unit = TimeUnit.SECONDS)
class TestRankFailures {
  @TempDir Path folder;

  @Test
  void theFirstCauseIsReportedAndTheSlotsComeBack(SparkSession spark) {
    assertThatThrownBy(() -> fit(spark, FaultyModels.ThrowsOnRankOne.class))
        .isInstanceOf(StageFailedException.class)
        .hasMessageStartingWith("Cannot finish the training: Rank 1 of 2 failed on host ")
        .hasMessageEndingWith("device cpu, epoch 1, step 5: the fuse blew");

    Instant start = Instant.now();
    TrainingResult result =
        new SparkTrainer(Configs.ddp(2, folder).build()).fit(Frames.halves(spark, 200));

    assertThat(result.epochs()).hasSize(3);
    assertThat(Duration.between(start, Instant.now())).isLessThan(Duration.ofSeconds(30));
  }

  @Test
  void ranksWithDifferentModelsFailTogether(SparkSession spark) {
    assertThatThrownBy(() -> fit(spark, FaultyModels.DiffersByRank.class))
        .isInstanceOf(StageFailedException.class)
        .hasMessageContaining("expected the same model and options on all ranks")
        .hasMessageContaining(
            "\"fc.weight: float32[2, 2]\" against \"fc.weight: float32[3, 2]\" on ranks 0 and 1");
  }

  @Test
  void aCancelledJobEndsRanksThatWaitForEachOther(SparkSession spark) throws Exception {
    CompletableFuture<Throwable> failure =
        CompletableFuture.supplyAsync(
            () -> catchThrowable(() -> fit(spark, FaultyModels.WaitsOnRankOne.class)));
    assertThat(FaultyModels.WaitsOnRankOne.WAITING.await(60, TimeUnit.SECONDS)).isTrue();

    Instant cancelled = Instant.now();
    spark.sparkContext().cancelAllJobs();

    assertThat(failure.get(30, TimeUnit.SECONDS))
        .isInstanceOf(StageFailedException.class)
        .hasMessageContaining("Cannot finish the training: ")
        .hasMessageContaining("cancelled");
    assertThat(spark.range(0, 100, 1, 2).count()).isEqualTo(100);
    assertThat(Duration.between(cancelled, Instant.now())).isLessThan(Duration.ofSeconds(20));
  }

  /** Spark counts busy slots as there, and then waits without a word. */
  @Test
  void aTrainingWaitsForSlotsThatAnotherJobTook(SparkSession spark) throws Exception {
    CompletableFuture<Void> holder =
        CompletableFuture.runAsync(
            () ->
                JavaSparkContext.fromSparkContext(spark.sparkContext())
                    .parallelize(List.of(1), 1)
                    .foreach(row -> Held.hold()));
    assertThat(Held.HOLDING.await(60, TimeUnit.SECONDS)).isTrue();
    CompletableFuture<Void> submitted = new CompletableFuture<>();
    SparkListener listener =
        new SparkListener() {
          @Override
          public void onJobStart(SparkListenerJobStart start) {
            String description = start.properties().getProperty("spark.job.description");
            if (description != null && description.startsWith("spark-trainer: ")) {
              submitted.complete(null);
            }
          }
        };
    spark.sparkContext().addSparkListener(listener);

    CompletableFuture<TrainingResult> training =
        CompletableFuture.supplyAsync(
            () -> new SparkTrainer(Configs.ddp(2, folder).build()).fit(Frames.halves(spark, 200)));
    submitted.get(60, TimeUnit.SECONDS);
    assertThat(training).isNotDone();
    Held.RELEASED.countDown();

    assertThat(training.get(100, TimeUnit.SECONDS).epochs()).hasSize(3);
    holder.get(10, TimeUnit.SECONDS);
    spark.sparkContext().removeSparkListener(listener);
  }

  /** A task that keeps its slot. */
  private static final class Held {
    static final CountDownLatch HOLDING = new CountDownLatch(1);
    static final CountDownLatch RELEASED = new CountDownLatch(1);

    static void hold() throws InterruptedException {
      HOLDING.countDown();
      RELEASED.await();
    }
  }

  private void fit(SparkSession spark, Class<?> model) {
    TrainingResult unused =
        new SparkTrainer(Configs.ddp(2, folder).model(new ModelSpec.OfClass(model)).build())
            .fit(Frames.halves(spark, 200));
  }
}
