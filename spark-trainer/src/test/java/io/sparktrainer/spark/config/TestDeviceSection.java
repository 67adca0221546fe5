package io.sparktrainer.spark.config;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.nn.GptConfig;
import io.sparktrainer.spark.config.DeviceConfig.CheckpointedActivations;
import io.sparktrainer.strategy.BackwardPrefetch;
import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.strategy.FsdpOptions;
import io.sparktrainer.strategy.GradientCompression;
import io.sparktrainer.strategy.MixedPrecision;
import io.sparktrainer.strategy.Precision;
import io.sparktrainer.strategy.ShardingStrategy;
import io.sparktrainer.strategy.StrategySpec;
import io.sparktrainer.strategy.UnevenInputs;
import io.sparktrainer.strategy.WrapPolicy;
import io.sparktrainer.torch.DType;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** The device section: strategies with their options, precision, GPUs. */
class TestDeviceSection {
  private static final String MINIMAL =
      """
      data: {features: [x1, x2], label: y}
      model: {type: mlp, hidden: [8]}
      """;

  @Test
  void fsdpWithEveryOption() {
    TrainerConfig config =
        TrainerConfig.parse(
            """
            device:
              parallel:
                strategy: fsdp
                workers: 4
                fsdp:
                  sharding_strategy: HYBRID_SHARD
                  shard_group_size: 2
                  backward_prefetch: BACKWARD_POST
                  forward_prefetch: true
                  limit_all_gathers: false
                  cpu_offload: true
                  accumulate_sharded: true
                  wrap: {policy: size, min_parameters: 1000}
              mixed_precision: {param_dtype: bfloat16, reduce_dtype: float32}
              activation_checkpointing: blocks
            data: {features: [tokens], label: targets}
            model: {type: gpt, vocab: 65, context: 64, width: 96, heads: 4, layers: 3, tied: true}
            """);

    FsdpOptions options =
        FsdpOptions.builder()
            .shardingStrategy(ShardingStrategy.HYBRID_SHARD)
            .shardGroupSize(2)
            .backwardPrefetch(BackwardPrefetch.BACKWARD_POST)
            .forwardPrefetch(true)
            .limitAllGathers(false)
            .cpuOffload(true)
            .accumulateSharded(true)
            .wrapPolicy(new WrapPolicy.MinParameters(1000))
            .mixedPrecision(new MixedPrecision(DType.BFLOAT16, DType.FLOAT32, null))
            .build();
    assertThat(config.device().strategy()).isEqualTo(new StrategySpec.Fsdp(4, options));
    assertThat(config.device().activationCheckpointing()).isEqualTo(CheckpointedActivations.BLOCKS);
    assertThat(config.model())
        .isEqualTo(
            new ModelSpec.Gpt(
                GptConfig.builder().context(64).width(96).layers(3).tied(true).build()));
    assertThat(TrainerConfig.parse(config.toYaml())).isEqualTo(config);
  }

  @Test
  void dpWithReplicasAndBf16() {
    TrainerConfig config =
        TrainerConfig.parse(
            """
            device: {parallel: {strategy: dp, replicas: 3}, mixed_precision: bf16}
            data: {features: [a], label: y}
            model: {type: mlp}
            """);

    assertThat(config.device().strategy()).isEqualTo(StrategySpec.Dp.onCpu(3));
    assertThat(config.device().computeOptions().precision()).isEqualTo(Precision.BF16);
    assertThat(TrainerConfig.parse(config.toYaml())).isEqualTo(config);
  }

  @Test
  void gpusWithTheResourcesOfARankAndNcclsEnvironment() {
    TrainerConfig config =
        TrainerConfig.parse(
            """
            device:
              type: cuda
              parallel:
                strategy: ddp
                workers: 2
                nccl: {NCCL_NSOCKS_PERTHREAD: 4, NCCL_SOCKET_IFNAME: "=eth0"}
              resources: {gpus_per_rank: 1, cpus_per_rank: 4}
            data: {features: [a], label: y}
            model: {type: mlp}
            """);

    DeviceConfig device = config.device();
    assertThat(device.type()).isEqualTo(DeviceType.CUDA);
    assertThat(device.resources()).isEqualTo(new DeviceResources(1, 4));
    assertThat(device.nccl().variables())
        .containsExactly(
            Map.entry("NCCL_NSOCKS_PERTHREAD", "4"), Map.entry("NCCL_SOCKET_IFNAME", "=eth0"));
    assertThat(device.nccl().warnings()).isEmpty();
    assertThat(TrainerConfig.parse(config.toYaml())).isEqualTo(config);
    TrainerConfig alone = config.withStrategy(new StrategySpec.None(0));
    assertThat(TrainerConfig.parse(alone.toYaml())).isEqualTo(alone);
  }

  @Test
  void devicesOfOneRank() {
    TrainerConfig dp =
        TrainerConfig.parse(
            """
            device: {type: cuda, parallel: {strategy: dp, device_ids: [2, 0]}, resources: {gpus_per_rank: 2}}
            data: {features: [a], label: y}
            model: {type: mlp}
            """);
    TrainerConfig none = TrainerConfig.parse(MINIMAL + "device: {parallel: {device_id: 1}}");

    assertThat(dp.device().strategy()).isEqualTo(StrategySpec.Dp.onDevices(List.of(2, 0)));
    assertThat(none.device().strategy()).isEqualTo(new StrategySpec.None(1));
    assertThat(TrainerConfig.parse(dp.toYaml())).isEqualTo(dp);
    assertThat(TrainerConfig.parse(none.toYaml())).isEqualTo(none);
  }

  @Test
  void aVariableThatNcclsGuideDoesNotNameIsWarnedOf() {
    NcclSettings settings = new NcclSettings(Map.of("NCCL_NSOCKS_PERTHREADS", "4"));

    assertThat(settings.warnings())
        .containsExactly(
            "device.parallel.nccl sets NCCL_NSOCKS_PERTHREADS, which the guide of NCCL 2.28 does not name; NCCL ignores what it does not know. Did you mean NCCL_NSOCKS_PERTHREAD?");
  }

  @Test
  void autoKeepsTheOptionsOfWhatMayBeChosen() {
    TrainerConfig config =
        TrainerConfig.parse(
            """
            device:
              parallel:
                strategy: auto
                workers: 4
                ddp: {static_graph: true}
                fsdp: {sharding_strategy: SHARD_GRAD_OP, wrap: {policy: model}}
            data: {features: [x], label: y}
            model: mlp
            """);

    assertThat(config.device().strategy())
        .isEqualTo(
            new StrategySpec.Auto(
                4,
                DdpOptions.builder().staticGraph(true).build(),
                FsdpOptions.builder()
                    .shardingStrategy(ShardingStrategy.SHARD_GRAD_OP)
                    .wrapPolicy(new WrapPolicy.WholeModel())
                    .build()));
    assertThat(TrainerConfig.parse(config.toYaml())).isEqualTo(config);
  }

  @Test
  void compressionOfDdpIsANameOrASection() {
    TrainerConfig section =
        ddp(
            "{compression: {type: powersgd, rank: 4, start_iteration: 10, warm_start: false},"
                + " uneven_inputs: divide_by_active}");
    assertThat(section.device().strategy())
        .isEqualTo(
            new StrategySpec.Ddp(
                2,
                DdpOptions.builder()
                    .unevenInputs(UnevenInputs.DIVIDE_BY_ACTIVE)
                    .compression(
                        GradientCompression.PowerSgd.builder()
                            .rank(4)
                            .startIteration(10)
                            .warmStart(false)
                            .build())
                    .build()));
    TrainerConfig name = ddp("{compression: bf16, sync_batch_norm: true}");
    assertThat(name.device().strategy())
        .isEqualTo(
            new StrategySpec.Ddp(
                2,
                DdpOptions.builder()
                    .compression(new GradientCompression.Bf16())
                    .syncBatchNorm(true)
                    .build()));
    assertThat(TrainerConfig.parse(section.toYaml())).isEqualTo(section);
    assertThat(TrainerConfig.parse(name.toYaml())).isEqualTo(name);
  }

  @Test
  void mistakesInOptionsOfDdpAreReportedWithTheirPath() {
    assertThatThrownBy(() -> ddp("{compression: zip}"))
        .hasMessageContaining("device.parallel.ddp.compression.type")
        .hasMessageContaining("expected one of none, bf16, fp16, powersgd");
    assertThatThrownBy(() -> ddp("{compression: {type: bf16, rank: 2}}"))
        .hasMessageContaining("device.parallel.ddp.compression.rank");
    assertThatThrownBy(() -> ddp("{sync_batch_norm: true, uneven_inputs: divide_by_world}"))
        .hasMessageContaining("Cannot use sync_batch_norm with uneven_inputs");
  }

  private static TrainerConfig ddp(String options) {
    return TrainerConfig.parse(
        """
        device: {parallel: {strategy: ddp, workers: 2, ddp: %s}}
        data: {features: [x], label: y}
        model: mlp
        """
            .formatted(options));
  }
}
