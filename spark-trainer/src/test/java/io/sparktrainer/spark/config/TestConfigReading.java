package io.sparktrainer.spark.config;

import static org.assertj.core.api.Assertions.assertThat;

import io.sparktrainer.data.Balance;
import io.sparktrainer.data.ElementType;
import io.sparktrainer.data.ImageSpec;
import io.sparktrainer.data.InputSpec;
import io.sparktrainer.data.MissingValues;
import io.sparktrainer.data.Validation;
import io.sparktrainer.nn.Losses;
import io.sparktrainer.optim.OptimizerSpec;
import io.sparktrainer.optim.ScheduleSpec;
import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.strategy.StrategySpec;
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
