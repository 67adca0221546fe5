package io.sparktrainer.spark.config;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.data.Balance;
import io.sparktrainer.data.ElementType;
import io.sparktrainer.data.ImageSpec;
import io.sparktrainer.data.InputSpec;
import io.sparktrainer.data.MissingValues;
import io.sparktrainer.data.Validation;
import io.sparktrainer.nn.GptConfig;
import io.sparktrainer.nn.Losses;
import io.sparktrainer.optim.OptimizerSpec;
import io.sparktrainer.optim.ScheduleSpec;
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

class TestConfigReading {
  private static final String MINIMAL =
      """
      data: {features: [x1, x2], label: y}
      model: {type: mlp, hidden: [8]}
      """;

  @Test
  void aMinimalTextGetsEveryDefault() {
    TrainerConfig config = TrainerConfig.parse(MINIMAL);

    assertThat(config)
        .isEqualTo(
            TrainerConfig.builder()
                .data(DataConfig.builder().features("x1", "x2").label("y").build())
                .model(new ModelSpec.Mlp(8))
                .build());
    assertThat(config.device().strategy()).isEqualTo(new StrategySpec.None(0));
    assertThat(config.optimizer()).isEqualTo(OptimizerSpec.adamW().build());
    assertThat(config.output()).isEqualTo("./run");
  }

  @Test
  void everyKeyIsRead() {
    TrainerConfig config =
        TrainerConfig.parse(
            """
            device:
              type: cpu
              parallel:
                strategy: ddp
                workers: 4
                timeout_seconds: 60
                ddp: {bucket_cap_mb: 10, gradient_as_bucket_view: true, static_graph: true,
                      find_unused_parameters: false, broadcast_buffers: false, compression: none}
            data:
              source: csv
              path: rows.csv
              options: {header: true}
              features: [a]
              shape: [1, 28, 28]
              label: y
              validation: 0.1
              shuffle: false
              seed: 7
            model: {type: cnn, filters: 4, outputs: 10, init: /runs/before}
            loss: mse
            optimizer: {type: sgd, lr: 1e-2, momentum: 0.9, nesterov: true, weight_decay: 1.0e-4}
            schedule: {type: cosine, warmup_steps: 100}
            training: {epochs: 3, batch_size: 64, accumulate: 2, clip_grad_norm: 1.0, seed: 1}
            metrics: {console: false, jsonl: true, tensorboard: false, mlflow: null}
            output: /tmp/run
            """);

    assertThat(config.device())
        .isEqualTo(
            DeviceConfig.builder()
                .type(DeviceType.CPU)
                .strategy(
                    new StrategySpec.Ddp(
                        4,
                        DdpOptions.builder()
                            .bucketCapMb(10.0)
                            .gradientAsBucketView(true)
                            .staticGraph(true)
                            .broadcastBuffers(false)
                            .build()))
                .timeoutSeconds(60)
                .build());
    assertThat(config.data())
        .isEqualTo(
            DataConfig.builder()
                .source(new DataSource("csv", "rows.csv", Map.of("header", "true")))
                .features("a")
                .shape(1, 28, 28)
                .label("y")
                .validation(0.1)
                .shuffle(false)
                .seed(7)
                .build());
    assertThat(config.model()).isEqualTo(new ModelSpec.Cnn(4, 10));
    assertThat(config.init()).isEqualTo("/runs/before");
    assertThat(TrainerConfig.parse(config.toYaml())).isEqualTo(config);
    assertThat(config.loss()).isEqualTo(Losses.MSE);
    assertThat(config.optimizer())
        .isEqualTo(
            OptimizerSpec.sgd().lr(0.01).momentum(0.9).nesterov(true).weightDecay(1e-4).build());
    assertThat(config.schedule()).isEqualTo(ScheduleSpec.cosine(100));
    assertThat(config.training())
        .isEqualTo(
            TrainingConfig.builder()
                .epochs(3)
                .batchSize(64)
                .accumulate(2)
                .clipGradNorm(1.0)
                .seed(1)
                .build());
    assertThat(config.metrics()).isEqualTo(MetricsConfig.quiet());
  }

  @Test
  void oneTextIsShortForItsType() {
    TrainerConfig config =
        TrainerConfig.parse(
            """
            data: {features: x, label: y}
            model: cnn
            optimizer: adam
            schedule: constant
            """);

    assertThat(config.model()).isEqualTo(new ModelSpec.Cnn());
    assertThat(config.optimizer()).isEqualTo(OptimizerSpec.adam().build());
    assertThat(config.data().inputs().get(0).columns()).containsExactly("x");
  }

  @Test
  void overridesReplaceAndAdd() {
    TrainerConfig config =
        TrainerConfig.parse(
            MINIMAL + "optimizer: adam\n",
            "training.epochs=5",
            "optimizer.lr=0.5",
            "data.features=[a, b, c]",
            "device.parallel.strategy=ddp",
            "device.parallel.workers=2");

    assertThat(config.training().epochs()).isEqualTo(5);
    assertThat(config.optimizer()).isEqualTo(OptimizerSpec.adam().lr(0.5).build());
    assertThat(config.data().inputs().get(0).columns()).containsExactly("a", "b", "c");
    assertThat(config.workers()).isEqualTo(2);
  }

  @Test
  void whatIsWrittenReadsBackEqual() {
    TrainerConfig config =
        TrainerConfig.builder()
            .strategy(new StrategySpec.Ddp(3, DdpOptions.builder().bucketCapMb(0.5).build()))
            .data(
                DataConfig.builder()
                    .source(new DataSource("table", "db.rows"))
                    .features("a b", "c: d", "true")
                    .label("null")
                    .validation(0.25)
                    .seed(-3)
                    .build())
            .model(new ModelSpec.OfClass("com.acme.Net", 3))
            .loss(Losses.BINARY_CROSS_ENTROPY)
            .optimizer(OptimizerSpec.adamW().lr(3e-5).amsgrad(true).build())
            .schedule(ScheduleSpec.step(10, 0.5))
            .training(TrainingConfig.builder().clipGradValue(0.5).seed(Long.MIN_VALUE).build())
            .metrics(MetricsConfig.quiet())
            .output("s3a://bucket/run 1")
            .build();

    assertThat(TrainerConfig.parse(config.toYaml())).isEqualTo(config);
  }

  @Test
  void theResolvedTextShowsEveryDefault() {
    assertThat(TrainerConfig.parse(MINIMAL).toYaml())
        .contains("strategy: none", "timeout_seconds: 300", "type: adamw", "lr: 0.001")
        .contains("weight_decay: 0.01", "batch_size: 32", "console: true", "output: ./run");
  }

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
  void rowsThatAreMissingSomething() {
    TrainerConfig config =
        TrainerConfig.parse(
            """
            data:
              source: sql
              query: SELECT a, y, held_out FROM t
              features: [a]
              label: y
              validation: {column: held_out}
              nulls: {fill: -1}
              nans: drop
              balance: pad
              memory_budget_mb: 64
            model: {type: mlp}
            """);

    assertThat(config.data().source())
        .isEqualTo(new DataSource("sql", "SELECT a, y, held_out FROM t"));
    assertThat(config.data().validation()).isEqualTo(Validation.column("held_out"));
    assertThat(config.data().rows())
        .isEqualTo(
            new RowOptions(MissingValues.fill(-1), MissingValues.drop(), Balance.PAD, 64, null));
    assertThat(TrainerConfig.parse(config.toYaml())).isEqualTo(config);
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

  @Test
  void severalInputsAreReadByName() {
    TrainerConfig config =
        TrainerConfig.parse(
            """
            data:
              inputs:
                numbers: [age, hours]
                categories: {columns: [work, school]}
                picture: {columns: photo, images: {height: 8, width: 6, channels: 1, range: byte}}
                history: {columns: [h], ragged: {length: 5, pad: -1, longer: cut}, type: int64}
              label: [a, b]
              weight: w
              validation: {source: parquet, path: test, options: {mergeSchema: true}}
              spill_directory: /scratch
            model: {type: tabular, hidden: [16], embeddings: {work: 9, school: 16}, embedding_width: 4,
                    dropout: 0.1}
            loss: mse
            """);

    assertThat(config.data())
        .isEqualTo(
            DataConfig.builder()
                .input(InputSpec.of("numbers", "age", "hours"))
                .input(InputSpec.of("categories", "work", "school"))
                .input(
                    InputSpec.of("picture", "photo")
                        .withImage(new ImageSpec(8, 6, 1, ImageSpec.Range.BYTE)))
                .input(
                    InputSpec.of("history", "h")
                        .withType(ElementType.INT64)
                        .withRagged(new InputSpec.Ragged(5, -1, InputSpec.Ragged.Longer.CUT)))
                .label("a", "b")
                .weight("w")
                .validation(new DataSource("parquet", "test", Map.of("mergeSchema", "true")))
                .rows(
                    new RowOptions(
                        MissingValues.fail(),
                        MissingValues.fail(),
                        Balance.REPARTITION,
                        0,
                        "/scratch"))
                .build());
    assertThat(config.model())
        .isEqualTo(
            new ModelSpec.Tabular(List.of(16), Map.of("work", 9, "school", 16), 4, 0.1, null));
    assertThat(TrainerConfig.parse(config.toYaml())).isEqualTo(config);
  }

  @Test
  void theOneInputTakesImagesAndRaggedArrays() {
    TrainerConfig config =
        TrainerConfig.parse(
            """
            data: {features: photo, images: {height: 8, width: 6}, ragged: {length: 3}, label: y}
            model: {type: cnn}
            """);

    assertThat(config.data().inputs())
        .containsExactly(
            InputSpec.of("features", "photo")
                .withImage(new ImageSpec(8, 6, 3, ImageSpec.Range.UNIT))
                .withRagged(new InputSpec.Ragged(3, 0, InputSpec.Ragged.Longer.FAIL)));
    assertThat(TrainerConfig.parse(config.toYaml())).isEqualTo(config);
    assertThat(TrainerConfig.parse(MINIMAL, "data.ragged=fail").data().inputs().get(0).ragged())
        .isNull();
  }

  @Test
  void aLossOfTheModelsOwnNeedsNoLabel() {
    TrainerConfig config =
        TrainerConfig.parse(
            """
            data: {features: [x1, x2]}
            model: {type: class, name: com.acme.AutoEncoder}
            loss: output
            """);

    assertThat(config.data().label()).isNull();
    assertThat(TrainerConfig.parse(config.toYaml())).isEqualTo(config);
  }

  @Test
  void joinGoesWithAStrategyThatCan() {
    TrainerConfig config =
        TrainerConfig.parse(
            MINIMAL
                + """
                device: {parallel: {strategy: ddp, workers: 2, ddp: {uneven_inputs: divide_by_active}}}
                """,
            "data.balance=join");

    assertThat(config.data().rows().balance()).isEqualTo(Balance.JOIN);
    assertThat(TrainerConfig.parse(config.toYaml())).isEqualTo(config);
    assertThat(TrainerConfig.parse(MINIMAL, "data.balance=join").workers()).isEqualTo(1);
  }
}
