package io.sparktrainer.spark.config;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class TestConfigMistakes {
  private static final String MINIMAL =
      """
      data: {features: [x1, x2], label: y}
      model: {type: mlp, hidden: [8]}
      """;

  @Test
  void everyMistakeIsReportedAtOnceWithItsPlace(@TempDir Path folder) throws Exception {
    Path file =
        Files.writeString(
            folder.resolve("train.yaml"),
            """
            device:
              parallel: {strategy: dpp, workers: 2}
            data:
              features: [x1]
              lable: y
            model: {type: mlp, hidden: [8, zero]}
            optimizer: {type: adamw, lr: fast}
            training:
              epochs: 0
              batchsize: 3
            """);

    ConfigException exception =
        catchThrowableOfType(
            ConfigException.class, () -> TrainerConfig.read(file, "metrics.console=perhaps"));

    assertThat(exception).hasMessageStartingWith("Cannot use the configuration: 8 mistakes.");
    assertThat(exception.problems())
        .extracting(problem -> problem.toString().replace(file.toString(), "train.yaml"))
        .containsExactly(
            "device.parallel.strategy (train.yaml:2): expected one of none, dp, ddp, fsdp, auto, got 'dpp'. Did you mean dp?",
            "data.label (train.yaml:4): expected the label column, got nothing.",
            "data.lable (train.yaml:5): unknown key. Did you mean label? Allowed here: source, options, path, weight, shuffle, nulls, nans, balance, memory_budget_mb, spill_directory, validation, seed, inputs, features, shape, images, ragged, label.",
            "model.hidden (train.yaml:6): expected a list of whole numbers of at least 1, got 'zero'.",
            "optimizer.lr (train.yaml:7): expected a number of at least 0, got 'fast'.",
            "training.epochs (train.yaml:9): expected a whole number of at least 1, got '0'.",
            "training.batchsize (train.yaml:10): unknown key. Did you mean batch_size? Allowed here: seed, epochs, batch_size, accumulate, clip_grad_norm, clip_grad_value.",
            "metrics.console (--set metrics.console=perhaps): expected true or false, got 'perhaps'.");
  }

  @Test
  void whatOtherVersionsHaveIsRefused() {
    assertThatThrownBy(
            () ->
                TrainerConfig.parse(
                    MINIMAL
                        + """
                        device:
                          type: tpu
                          parallel: {strategy: ddp, workers: 2, max_restarts: 3, device_ids: [0, 1]}
                          mixed_precision: {param_dtype: bfloat16}
                        checkpoint: {path: /tmp/c}
                        metrics: {report: true}
                        """))
        .isInstanceOf(ConfigException.class)
        .hasMessageContaining(
            "device.type (configuration:4): expected one of cpu, cuda, auto, got 'tpu'.")
        .hasMessageContaining(
            "device.parallel.max_restarts (configuration:5): this version does not have it, got '3'.")
        .hasMessageContaining(
            "device.parallel.device_ids (configuration:5): has no effect with strategy ddp.")
        .hasMessageContaining(
            "device.mixed_precision.param_dtype (configuration:6): expected strategy fsdp")
        .hasMessageContaining("checkpoint (configuration:7)")
        .hasMessageContaining("metrics.report (configuration:8)");
  }

  @Test
  void whatHasNoEffectWithoutGpusIsRefused() {
    assertThatThrownBy(
            () ->
                TrainerConfig.parse(
                    MINIMAL
                        + """
                        device:
                          type: cpu
                          parallel: {strategy: ddp, workers: 2, nccl: {NCCL_DEBUG: INFO}}
                          resources: {gpus_per_rank: 1}
                        """))
        .hasMessageContaining(
            "device.parallel.nccl (configuration:5): has no effect with device.type cpu. Take it out.")
        .hasMessageContaining(
            "device.resources.gpus_per_rank (configuration:6): has no effect with device.type cpu. Take it out.");
    assertThatThrownBy(
            () -> TrainerConfig.parse(MINIMAL, "device.type=cpu", "device.parallel.device_id=1"))
        .hasMessageContaining("device.parallel.device_id (--set device.parallel.device_id=1): has");
    assertThatThrownBy(
            () ->
                TrainerConfig.parse(
                    MINIMAL + "device: {type: cpu, parallel: {strategy: dp, device_ids: [0, 1]}}"))
        .hasMessageContaining(
            "device.parallel.device_ids (configuration:3): has no effect with device.type cpu. Set replicas instead.");
  }

  @Test
  void gpuOptionsThatDoNotSuitTheStrategyAreRefused() {
    assertThatThrownBy(
            () ->
                TrainerConfig.parse(
                    MINIMAL + "device: {parallel: {strategy: none, nccl: {NCCL_DEBUG: INFO}}}"))
        .hasMessageContaining(
            "device.parallel.nccl (configuration:3): has no effect with strategy none.");
    assertThatThrownBy(
            () ->
                TrainerConfig.parse(
                    MINIMAL
                        + """
                        device:
                          parallel: {strategy: ddp, workers: 2, nccl: {nccl_debug: INFO}}
                          resources: {gpus_per_rank: 2}
                        """))
        .hasMessageContaining(
            "device.parallel.nccl (configuration:4): Cannot set 'nccl_debug' for NCCL: expected a name in capitals")
        .hasMessageContaining(
            "device.resources.gpus_per_rank (configuration:5): expected 1 with strategy ddp, got '2'.");
    assertThatThrownBy(() -> new NcclSettings(java.util.Map.of("NCCL_COMM_ID", "host:1")))
        .hasMessageContaining("the ranks exchange an id of their own");
  }

  @Test
  void whatIsSwitchedOffIsAccepted() {
    TrainerConfig config =
        TrainerConfig.parse(
            MINIMAL
                + """
                device:
                  parallel: {strategy: none, max_restarts: 0}
                  mixed_precision: none
                checkpoint: null
                metrics: {report: false}
                """);

    assertThat(config.workers()).isEqualTo(1);
  }

  @Test
  void aRecordsOwnCheckIsReportedAtItsSection() {
    assertThatThrownBy(
            () -> TrainerConfig.parse(MINIMAL + "optimizer: {type: sgd, nesterov: true}"))
        .hasMessageContaining("optimizer (configuration:3): Cannot use sgd with nesterov");
  }

  @Test
  void workersNeedAStrategyThatHasThem() {
    assertThatThrownBy(() -> TrainerConfig.parse(MINIMAL, "device.parallel.workers=2"))
        .hasMessageContaining("expected 1 with strategy none, which is one rank. Use strategy ddp");
    assertThatThrownBy(() -> TrainerConfig.parse(MINIMAL, "device.parallel.strategy=ddp"))
        .hasMessageContaining(
            "device.parallel.workers (--set device.parallel.strategy=ddp): expected the number of ranks, such as 2, got nothing.");
  }

  @Test
  void aBrokenTextNamesTheLine() {
    assertThatThrownBy(() -> TrainerConfig.parse("data: {features: [x\nmodel: mlp\n"))
        .isInstanceOf(ConfigException.class)
        .hasMessageContaining("1 mistake.")
        .hasMessageContaining("this is not YAML");
    assertThatThrownBy(() -> TrainerConfig.parse("- a\n- b\n"))
        .hasMessageContaining("configuration:1: expected keys with values, got a list of 2.");
    assertThatThrownBy(() -> TrainerConfig.parse(MINIMAL + "loss: mse\nloss: l1\n"))
        .hasMessageContaining("loss (configuration:4): the key is there twice.");
  }

  @Test
  void tagsMakeNoObjects() {
    assertThatThrownBy(() -> TrainerConfig.parse(MINIMAL + "output: !!java.io.File [/tmp/x]\n"))
        .hasMessageContaining("configuration:3: this is not YAML: Global tag is not allowed");
  }

  @Test
  void overridesThatAreNoneAreNamed() {
    assertThatThrownBy(() -> TrainerConfig.parse(MINIMAL, "epochs", "training.epoch=1"))
        .hasMessageContaining("--set epochs: expected KEY=VALUE, such as training.epochs=3.")
        .hasMessageContaining(
            "training.epoch (--set training.epoch=1): unknown key. Did you mean epochs?");
  }

  @Test
  void anEmptyTextListsWhatIsNeeded() {
    ConfigException exception =
        catchThrowableOfType(ConfigException.class, () -> TrainerConfig.parse(""));

    assertThat(exception.problems())
        .extracting(Problem::path)
        .isEqualTo(List.of("data.features", "data.label", "model.type"));
  }

  @Test
  void buildersCheckWhatTheyAreGiven() {
    assertThatThrownBy(() -> TrainerConfig.builder().model(new ModelSpec.Mlp(2)).build())
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("Cannot build a configuration: expected data and model, got no data.");
    assertThatThrownBy(() -> TrainingConfig.builder().epochs(0).build())
        .hasMessageContaining("Cannot use epochs 0");
    assertThatThrownBy(() -> DataConfig.builder().label("y").build())
        .hasMessage("Cannot use features []: expected at least one column.");
    assertThatThrownBy(() -> new ModelSpec.Mlp(0)).hasMessageContaining("Cannot use hidden 0");
  }

  @Test
  void mistakesInInputsAreNamedByInput() {
    assertThatThrownBy(
            () ->
                TrainerConfig.parse(
                    """
                    data:
                      inputs:
                        numbers: {column: [x1]}
                        picture: {columns: [p], images: {height: 8, channels: 2}}
                        history: {columns: [h], ragged: {pad: 3}, type: int65}
                      features: [x1]
                      shape: [2]
                      label: y
                      ragged: cut
                      validation: {source: csv, path: t.csv, fraction: 0.5}
                    model: {type: tabular, embeddings: 9, hidden: [4]}
                    """))
        .hasMessageContaining(
            "data.inputs.numbers.columns (configuration:3): expected the columns of 'numbers', such as [x1, x2], got nothing.")
        .hasMessageContaining(
            "data.inputs.numbers.column (configuration:3): unknown key. Did you mean columns?")
        .hasMessageContaining(
            "data.inputs.picture.images.width (configuration:4): expected the width of the images in pixels, such as 32, got nothing.")
        .hasMessageContaining(
            "data.inputs.history.ragged.length (configuration:5): expected the length that arrays are padded to, got nothing.")
        .hasMessageContaining("data.inputs.history.type (configuration:5): expected one of float32")
        .hasMessageContaining(
            "data.features (configuration:6): has no effect beside inputs. Name it under the input that it is for.")
        .hasMessageContaining("data.shape (configuration:7): has no effect beside inputs.")
        .hasMessageContaining(
            "data.ragged (configuration:9): expected one of fail, {length: NUMBER}, got 'cut'.")
        .hasMessageContaining(
            "model.embeddings (configuration:11): expected auto, or numbers of categories by column, such as {city: 30}, got '9'.");
    assertThatThrownBy(
            () ->
                TrainerConfig.parse(
                    MINIMAL, "data.validation={source: csv, path: t.csv, column: t}"))
        .hasMessageContaining("expected one place for test rows");
    assertThatThrownBy(
            () ->
                TrainerConfig.parse(
                    "data: {inputs: {weight: [x]}, label: y}\nmodel: {type: mlp}\n"))
        .hasMessageContaining("Cannot use an input named 'weight'");
  }

  @Test
  void joinNeedsAStrategyThatCan() {
    String two = "device: {parallel: {strategy: %s, workers: 2}}\n";
    assertThatThrownBy(
            () -> TrainerConfig.parse(MINIMAL + two.formatted("fsdp"), "data.balance=join"))
        .hasMessageContaining(
            "data.balance (--set data.balance=join): expected a strategy whose ranks can take different numbers of steps, got fsdp. Use ddp with ddp.uneven_inputs, or balance repartition, pad or drop.");
    assertThatThrownBy(
            () -> TrainerConfig.parse(MINIMAL + two.formatted("ddp"), "data.balance=join"))
        .hasMessageContaining(
            "expected ddp.uneven_inputs divide_by_world or divide_by_active, got refuse.");
  }

  @Test
  void aLabelThatNobodyLooksAt() {
    assertThatThrownBy(() -> TrainerConfig.parse(MINIMAL, "loss=output"))
        .hasMessageContaining("data.label (configuration:1): has no effect with loss output.");
    assertThatThrownBy(
            () ->
                TrainerConfig.builder()
                    .data(DataConfig.builder().features("x").build())
                    .model(new ModelSpec.Mlp(2))
                    .build())
        .hasMessage(
            "Cannot use the data: expected a label column, got none. Only loss output needs none.");
  }
}
