package io.sparktrainer.spark.config;

import static org.assertj.core.api.Assertions.assertThat;

import io.sparktrainer.nn.Losses;
import io.sparktrainer.optim.OptimizerSpec;
import io.sparktrainer.optim.ScheduleSpec;
import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.strategy.StrategySpec;
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
            model: {type: cnn, filters: 4, outputs: 10}
            loss: mse
            optimizer: {type: sgd, lr: 1e-2, momentum: 0.9, nesterov: true, weight_decay: 1.0e-4}
            schedule: {type: cosine, warmup_steps: 100}
            training: {epochs: 3, batch_size: 64, accumulate: 2, clip_grad_norm: 1.0, seed: 1}
            metrics: {console: false, jsonl: true, tensorboard: false, mlflow: null}
            output: /tmp/run
            """);

    assertThat(config.device())
        .isEqualTo(
            new DeviceConfig(
                DeviceType.CPU,
                new StrategySpec.Ddp(
                    4,
                    DdpOptions.builder()
                        .bucketCapMb(10.0)
                        .gradientAsBucketView(true)
                        .staticGraph(true)
                        .broadcastBuffers(false)
                        .build()),
                60));
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
    assertThat(config.data().features()).containsExactly("x");
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
    assertThat(config.data().features()).containsExactly("a", "b", "c");
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
}
