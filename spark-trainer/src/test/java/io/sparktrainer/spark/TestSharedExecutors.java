package io.sparktrainer.spark;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.spark.barrier.BarrierStage;
import io.sparktrainer.spark.barrier.RankProgram;
import io.sparktrainer.spark.barrier.StageFailedException;
import io.sparktrainer.spark.barrier.StageOptions;
import io.sparktrainer.spark.testing.Frames;
import io.sparktrainer.spark.testing.SparkTest;
import io.sparktrainer.torch.NativeLibraries;
import io.sparktrainer.torch.NativeLibraryException;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerExecutorAdded;
import org.apache.spark.scheduler.SparkListenerExecutorRemoved;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * Executors with room for two ranks each; as in TestGpuResources, whose Spark session it shares.
 */
@SparkTest(
    master = "local-cluster[2,2,1024]",
    conf = {
      "spark.worker.resource.gpu.amount=2",
      "spark.worker.resource.gpu.discoveryScript=src/test/resources/gpus/discover-two",
      "spark.executor.resource.gpu.amount=2",
    })
@Timeout(value = 300, unit = TimeUnit.SECONDS)
class TestSharedExecutors {
  /** Of both executors: with as many ranks every executor is reached. */
  private static final int SLOTS = 4;

  private static final String PLATFORM = "org.bytedeco.javacpp.platform";

  /** Hides libtorch from a process that has not loaded it yet. */
  private static final RankProgram<Integer> HIDE_LIBTORCH =
      (rank, rows) -> String.valueOf(System.setProperty(PLATFORM, "linux-nosuch"));

  private static final RankProgram<Integer> END_FIRST =
      (rank, rows) -> {
        if (rank.rank() == 0) {
          Runtime.getRuntime().halt(1);
        }
        return "";
      };

  /** Ends a process that cannot load libtorch, which it never can again. */
  private static final RankProgram<Integer> END_BROKEN =
      (rank, rows) -> {
        System.clearProperty(PLATFORM);
        try {
          NativeLibraries.load();
        } catch (NativeLibraryException e) {
          Runtime.getRuntime().halt(1);
        }
        return "";
      };

  @TempDir Path folder;

  @Test
  void twoRanksOfAnExecutorTrainLikeAnyOthers(SparkSession spark) {
    TrainingResult result = fit(spark, 4);

    assertThat(result.ranks()).hasSize(4);
    assertThat(new HashSet<>(processes(result))).hasSize(2);
    assertThat(result.ranks()).extracting(TrainingResult.Participant::threads).containsOnly(1);
    assertThat(result.lastEpoch().loss()).isLessThan(result.epochs().get(0).loss());
  }

  @Test
  void aLibraryThatCannotLoadEndsATrainingButNotTheApplication(SparkSession spark)
      throws Exception {
    assertThat(fit(spark, SLOTS).epochs()).hasSize(3);
    endAnExecutor(spark, END_FIRST);
    List<String> unused = run(spark, HIDE_LIBTORCH);

    assertThatThrownBy(() -> fit(spark, SLOTS))
        .isInstanceOf(StageFailedException.class)
        .hasMessageContaining("loading libtorch: Cannot load libtorch: expected native libraries")
        .hasMessageContaining("linux-nosuch");

    endAnExecutor(spark, END_BROKEN);
    assertThat(fit(spark, SLOTS).epochs()).hasSize(3);
  }

  /** And waits for the one that the cluster starts in its place. */
  private static void endAnExecutor(SparkSession spark, RankProgram<Integer> program)
      throws InterruptedException {
    CountDownLatch replaced = new CountDownLatch(2);
    SparkListener listener =
        new SparkListener() {
          @Override
          public void onExecutorRemoved(SparkListenerExecutorRemoved event) {
            replaced.countDown();
          }

          @Override
          public void onExecutorAdded(SparkListenerExecutorAdded event) {
            replaced.countDown();
          }
        };
    spark.sparkContext().addSparkListener(listener);
    assertThatThrownBy(() -> run(spark, program)).isInstanceOf(StageFailedException.class);
    assertThat(replaced.await(120, TimeUnit.SECONDS)).isTrue();
    spark.sparkContext().removeSparkListener(listener);
  }

  private static List<String> run(SparkSession spark, RankProgram<Integer> program) {
    JavaRDD<Integer> rows =
        JavaSparkContext.fromSparkContext(spark.sparkContext())
            .parallelize(List.of(1, 2, 3, 4), SLOTS);
    return BarrierStage.run(
        rows, program, StageOptions.builder("test").slotWaitSeconds(120).build());
  }

  private static List<Long> processes(TrainingResult result) {
    return result.ranks().stream().map(TrainingResult.Participant::processId).toList();
  }

  private TrainingResult fit(SparkSession spark, int workers) {
    return new SparkTrainer(Configs.ddp(workers, folder).build()).fit(Frames.halves(spark, 200));
  }
}
