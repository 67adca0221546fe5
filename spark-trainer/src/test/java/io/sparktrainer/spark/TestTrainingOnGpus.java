package io.sparktrainer.spark;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.spark.barrier.StageFailedException;
import io.sparktrainer.spark.config.DeviceConfig;
import io.sparktrainer.spark.config.DeviceResources;
import io.sparktrainer.spark.config.DeviceType;
import io.sparktrainer.spark.config.ModelSpec;
import io.sparktrainer.spark.config.NcclSettings;
import io.sparktrainer.spark.config.TrainerConfig;
import io.sparktrainer.spark.config.TrainingConfig;
import io.sparktrainer.spark.metrics.DeviceMemory;
import io.sparktrainer.spark.testing.Frames;
import io.sparktrainer.spark.testing.SparkTest;
import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.strategy.FsdpOptions;
import io.sparktrainer.strategy.StrategySpec;
import io.sparktrainer.testing.StandIns;
import io.sparktrainer.torch.CudaDevices;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * Ranks in executor processes that see two stand-ins for GPUs and exchange over NCCL's stand-in:
 * all is as on GPUs but the tensors, which stay in host memory.
 */
@SparkTest(
    master = "local-cluster[2,1,2048]",
    conf = {
      "spark.worker.resource.gpu.amount=1",
      "spark.worker.resource.gpu.discoveryScript=src/test/resources/gpus/discover-first",
      "spark.executor.resource.gpu.amount=1",
    },
    options = TestTrainingOnGpus.Stand.class)
@Timeout(value = 300, unit = TimeUnit.SECONDS)
class TestTrainingOnGpus {
  private static final int FREE_MIB = 64;
  private static final int TOTAL_MIB = 256;

  @TempDir Path folder;

  /** Executors with stand-ins. */
  static final class Stand implements SparkTest.Options {
    @Override
    public Map<String, String> options() {
      Map<String, String> options = new HashMap<>();
      Map<String, String> memory =
          Map.of("STANDIN_FREE_MIB", "" + FREE_MIB, "STANDIN_TOTAL_MIB", "" + TOTAL_MIB);
      StandIns.environment(memory)
          .forEach((name, value) -> options.put("spark.executorEnv." + name, value));
      options.put("spark.executor.extraJavaOptions", "-D" + CudaDevices.ALLOW_STAND_INS + "=true");
      return options;
    }
  }

  @Test
  void ddpOverNcclIsDdpOverGloo(SparkSession spark) throws Exception {
    StrategySpec ddp = new StrategySpec.Ddp(2, DdpOptions.defaults());

    TrainingResult onGpus = fit(spark, DeviceType.CUDA, ddp, "gpu");
    TrainingResult onCpus = fit(spark, DeviceType.CPU, ddp, "cpu");

    assertThat(onGpus.ranks())
        .extracting(TrainingResult.Participant::device)
        .containsExactly("cuda:0", "cuda:1");
    assertThat(onCpus.ranks()).extracting(TrainingResult.Participant::device).containsOnly("cpu");
    assertSame(onGpus, onCpus);
    assertThat(onGpus.deviceMemory())
        .hasSize(6)
        .contains(
            new DeviceMemory(
                1, 2, "cuda:1", (long) (TOTAL_MIB - FREE_MIB) << 20, (long) TOTAL_MIB << 20));
    assertThat(onCpus.deviceMemory()).isEmpty();
    assertThat(Files.readAllLines(Path.of(onGpus.runFolder(), "metrics.jsonl")))
        .filteredOn(line -> line.contains("\"type\":\"memory\""))
        .hasSize(6)
        .allMatch(line -> line.contains("\"share\":0.75"));
  }

  @Test
  void fsdpOverNcclIsFsdpOverGloo(SparkSession spark) throws Exception {
    StrategySpec fsdp = new StrategySpec.Fsdp(2, FsdpOptions.defaults());

    assertSame(fit(spark, DeviceType.AUTO, fsdp, "gpu"), fit(spark, DeviceType.CPU, fsdp, "cpu"));
  }

  /** Each worker's only GPU is the same one. */
  @Test
  void twoRanksOnOneGpuAreRefused(SparkSession spark) {
    DeviceConfig device = device(DeviceType.CUDA).resources(new DeviceResources(1, null)).build();

    assertThatThrownBy(() -> fit(spark, device, new ModelSpec.Mlp(16)))
        .isInstanceOf(StageFailedException.class)
        .hasMessageContaining(
            "expected one of its own for each rank, got ranks 0 and 1 on GPU 0 (Stand-in GPU, 0000:10:00.0) GPU-a0a0a0a0-a0a0-a0a0-a0a0-a0a0a0a0a000 of host ");
    assertThat(spark.range(10).count()).isEqualTo(10);
  }

  @Test
  void aGpuWithTooLittleFreeMemorySaysWhoNeedsWhat(SparkSession spark) {
    assertThatThrownBy(
            () -> fit(spark, device(DeviceType.CUDA).build(), new ModelSpec.Mlp(2000, 2000)))
        .isInstanceOf(StageFailedException.class)
        .hasMessageContaining("Cannot use GPU ")
        .hasMessageContaining(
            " of 2 under ddp, which needs in GiB parameters 0.0, gradients 0.0, optimizer 0.0, buckets 0.0, before any activations: expected 77 MiB of free memory, got 64 of 256 MiB free.");
  }

  @Test
  void aLostRankEndsTheOthersAndTheNextTrainingRuns(SparkSession spark) throws Exception {
    DeviceConfig cuda = device(DeviceType.CUDA).build();

    assertThatThrownBy(
            () -> fit(spark, cuda, new ModelSpec.OfClass(FaultyModels.KillsProcessOfRankOne.class)))
        .isInstanceOf(StageFailedException.class)
        .hasMessageContaining("which ran rank 1, was lost: ");
    assertThatThrownBy(
            () -> fit(spark, cuda, new ModelSpec.OfClass(FaultyModels.ThrowsOnRankOne.class)))
        .isInstanceOf(StageFailedException.class)
        .hasMessageContaining("Rank 1 of 2 failed on host ")
        .hasMessageContaining(", device cuda:1, epoch 1, step 5: the fuse blew");
    assertThat(fit(spark, cuda, new ModelSpec.Mlp(16)).epochs()).hasSize(3);
  }

  private static void assertSame(TrainingResult one, TrainingResult other) throws Exception {
    for (int epoch = 0; epoch < 3; epoch++) {
      assertThat(one.epochs().get(epoch).loss()).isEqualTo(other.epochs().get(epoch).loss());
    }
    assertThat(Files.readAllBytes(Path.of(one.modelPath())))
        .isEqualTo(Files.readAllBytes(Path.of(other.modelPath())));
  }

  @Test
  void ncclKeepsToTheEnvironmentThatItStartedWith(SparkSession spark) {
    TrainingResult unused = fit(spark, device(DeviceType.CUDA).build(), new ModelSpec.Mlp(16));
    DeviceConfig other =
        device(DeviceType.CUDA).nccl(new NcclSettings(Map.of("NCCL_DEBUG", "INFO"))).build();

    assertThatThrownBy(() -> fit(spark, other, new ModelSpec.Mlp(16)))
        .isInstanceOf(StageFailedException.class)
        .hasMessageContaining(
            "loading NCCL: Cannot set NCCL_DEBUG to 'INFO': NCCL has started in this process with 'WARN', and reads it once. Start new executors for other settings.");
  }

  private static DeviceConfig.Builder device(DeviceType type) {
    return DeviceConfig.builder()
        .type(type)
        .nccl(
            type == DeviceType.CPU
                ? NcclSettings.none()
                : new NcclSettings(Map.of("NCCL_DEBUG", "WARN")))
        .timeoutSeconds(60)
        .strategy(new StrategySpec.Ddp(2, DdpOptions.defaults()));
  }

  private TrainingResult fit(
      SparkSession spark, DeviceType type, StrategySpec strategy, String name) {
    TrainerConfig config =
        Configs.ddp(2, folder.resolve(name))
            .device(device(type).strategy(strategy).build())
            .build();
    return new SparkTrainer(config).fit(Frames.halves(spark, 200));
  }

  private TrainingResult fit(SparkSession spark, DeviceConfig device, ModelSpec model) {
    TrainerConfig config =
        Configs.ddp(2, folder)
            .device(device)
            .model(model)
            .training(TrainingConfig.builder().epochs(3).batchSize(16).build())
            .build();
    return new SparkTrainer(config).fit(Frames.halves(spark, 200));
  }
}
