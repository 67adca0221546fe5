package io.sparktrainer.spark;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.spark.barrier.BarrierStage;
import io.sparktrainer.spark.barrier.RankProgram;
import io.sparktrainer.spark.barrier.StageFailedException;
import io.sparktrainer.spark.barrier.StageOptions;
import io.sparktrainer.spark.config.DeviceConfig;
import io.sparktrainer.spark.config.DeviceType;
import io.sparktrainer.spark.testing.DriverStandIns;
import io.sparktrainer.spark.testing.Frames;
import io.sparktrainer.spark.testing.SparkTest;
import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.strategy.StrategySpec;
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
    },
    options = DriverStandIns.class)
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

  /** A driver that is too old, none of the visible devices, and no NCCL. */
  @Test
  void gpusThatCannotBeUsedAreNamedWithRankAndWhatToDo(SparkSession spark) {
    DriverStandIns.require();
    assertThat(fit(spark, SLOTS).epochs()).hasSize(3);

    assertThat(refusal(spark, "STANDIN_DRIVER", "12040"))
        .contains(
            "got none for 2 of them: rank 0 on host ",
            " has none: Cannot use CUDA devices: expected a driver for CUDA 13.0 or newer, got one for CUDA 12.4. Update to NVIDIA driver 580 or newer, for CUDA 13. ",
            "let new executors (or a new JVM) take the place of those that failed. Mend that, keep executors off that host, or set device.type to cpu or auto.");
    assertThat(refusal(spark, "STANDIN_DEVICES", "2"))
        .contains(
            "got none for 2 of them: rank 0 on host ",
            " has none: Cannot use CUDA devices: expected at least one, got none from the driver. CUDA_VISIBLE_DEVICES is '6,7'; nvidia-smi lists what the machine has.");
    assertThat(refusal(spark, "STANDIN_FREE_MIB", "64"))
        .contains(
            "got none for 1 of them: rank 0 on host ",
            " has none: Cannot load NCCL: expected libnccl.so.2, libcudart.so.13, libcuda.so.1 of CUDA 13 and NVIDIA driver 580 or newer, got ",
            "libnccl.so.2 not found",
            "Looked in /usr/local/cuda-13.1/lib64:",
            "Install CUDA 13's libraries and NCCL 2, set LD_LIBRARY_PATH to their folder, ",
            "let new executors (or a new JVM) take the place of those that failed. Mend that, ");
    List<String> unused =
        run(
            spark,
            (rank, rows) -> {
              DriverStandIns.leave();
              return "";
            });
  }

  /** Why a training on GPUs fails where the executors' environment has this variable. */
  private String refusal(SparkSession spark, String variable, String value) {
    List<String> unused =
        run(
            spark,
            (rank, rows) -> {
              DriverStandIns.use("STANDIN_DRIVER", "13010");
              DriverStandIns.use(variable, value);
              return "";
            });
    DeviceConfig onGpus =
        DeviceConfig.builder()
            .type(DeviceType.CUDA)
            .strategy(new StrategySpec.Ddp(2, DdpOptions.defaults()))
            .build();
    SparkTrainer trainer = new SparkTrainer(Configs.ddp(2, folder).device(onGpus).build());
    try {
      trainer.fit(Frames.halves(spark, 200));
    } catch (StageFailedException e) {
      return String.valueOf(e.getMessage());
    }
    throw new AssertionError("The training did not fail.");
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
