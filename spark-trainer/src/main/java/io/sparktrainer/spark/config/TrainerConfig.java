package io.sparktrainer.spark.config;

import static java.util.Objects.requireNonNull;

import io.sparktrainer.data.Balance;
import io.sparktrainer.nn.Losses;
import io.sparktrainer.optim.OptimizerSpec;
import io.sparktrainer.optim.ScheduleSpec;
import io.sparktrainer.strategy.StrategySpec;
import io.sparktrainer.strategy.UnevenInputs;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Everything about one training, checked.
 *
 * @param device devices, and how the ranks train together
 * @param data columns, and how rows become batches
 * @param model what is trained
 * @param init weights to start from, a safetensors file or the run folder of an earlier training;
 *     null, the default, for random ones
 * @param loss what is minimised; {@code cross_entropy} by default
 * @param optimizer {@code adamw} by default
 * @param schedule how the learning rate changes; {@code constant} by default
 * @param training epochs, batch size, clipping, seed
 * @param metrics where figures go
 * @param output the run folder, on any file system that Hadoop reaches; {@code ./run} by default
 */
public record TrainerConfig(
    DeviceConfig device,
    DataConfig data,
    ModelSpec model,
    @Nullable String init,
    Losses loss,
    OptimizerSpec optimizer,
    ScheduleSpec schedule,
    TrainingConfig training,
    MetricsConfig metrics,
    String output) {
  public TrainerConfig {
    requireNonNull(device, "device");
    requireNonNull(data, "data");
    requireNonNull(model, "model");
    requireNonNull(loss, "loss");
    requireNonNull(optimizer, "optimizer");
    requireNonNull(schedule, "schedule");
    requireNonNull(training, "training");
    requireNonNull(metrics, "metrics");
    requireNonNull(output, "output");
    requireLabel(data, loss);
    String join = joinProblem(device.strategy(), data.rows().balance());
    if (join != null) {
      throw new IllegalArgumentException("Cannot use balance join: " + join);
    }
  }

  private static void requireLabel(DataConfig data, Losses loss) {
    if ((data.label() == null) != (loss == Losses.OUTPUT)) {
      throw new IllegalArgumentException(
          data.label() == null
              ? "Cannot use the data: expected a label column, got none. Only loss output needs none."
              : "Cannot use loss output: expected no label, got %s. Leave the label out, or use another loss."
                  .formatted(data.label().columns()));
    }
  }

  /** Why ranks cannot run out of rows at different times; null where they can. */
  static @Nullable String joinProblem(StrategySpec strategy, Balance balance) {
    if (balance != Balance.JOIN || strategy.workers() == 1) {
      return null;
    }
    if (strategy instanceof StrategySpec.Ddp ddp) {
      return ddp.options().unevenInputs() == UnevenInputs.REFUSE
          ? "expected ddp.uneven_inputs divide_by_world or divide_by_active, got refuse. Set it, or use balance repartition, pad or drop."
          : null;
    }
    return strategy instanceof StrategySpec.Auto
        ? null
        : "expected a strategy whose ranks can take different numbers of steps, got %s. Use ddp with ddp.uneven_inputs, or balance repartition, pad or drop."
            .formatted(strategy.name());
  }

  /**
   * Reads a file.
   *
   * @param overrides values to set on top, as {@code a.b=value}
   * @throws ConfigException with every mistake in it
   * @throws IOException if the file cannot be read
   */
  public static TrainerConfig read(Path file, String... overrides) throws IOException {
    return ConfigReader.read(Files.readString(file), file.toString(), List.of(overrides));
  }

  /**
   * Reads a YAML text.
   *
   * @param overrides values to set on top, as {@code a.b=value}
   * @throws ConfigException with every mistake in it
   */
  public static TrainerConfig parse(String yaml, String... overrides) {
    return ConfigReader.read(yaml, "configuration", List.of(overrides));
  }

  /** The configuration as YAML, with every default filled in; {@link #parse} reads it back. */
  public String toYaml() {
    return ConfigWriter.write(this);
  }

  /** The same training with another strategy. */
  public TrainerConfig withStrategy(StrategySpec strategy) {
    return new TrainerConfig(
        device.withStrategy(strategy),
        data,
        model,
        init,
        loss,
        optimizer,
        schedule,
        training,
        metrics,
        output);
  }

  /** The same training of another model. */
  public TrainerConfig withModel(ModelSpec other) {
    return new TrainerConfig(
        device, data, other, init, loss, optimizer, schedule, training, metrics, output);
  }

  /**
   * The same training from the weights of an earlier one.
   *
   * @param weights a safetensors file or a run folder, or null for random weights
   */
  public TrainerConfig withInit(@Nullable String weights) {
    return new TrainerConfig(
        device, data, model, weights, loss, optimizer, schedule, training, metrics, output);
  }

  /** How many ranks train together. */
  public int workers() {
    return device.strategy().workers();
  }

  public static Builder builder() {
    return new Builder();
  }

  /** Sets sections by name; what is not set keeps its default. */
  public static final class Builder {
    private DeviceConfig device = DeviceConfig.defaults();
    private @Nullable DataConfig data;
    private @Nullable ModelSpec model;
    private @Nullable String init;
    private Losses loss = Losses.CROSS_ENTROPY;
    private OptimizerSpec optimizer = OptimizerSpec.adamW().build();
    private ScheduleSpec schedule = ScheduleSpec.constant();
    private TrainingConfig training = TrainingConfig.defaults();
    private MetricsConfig metrics = MetricsConfig.defaults();
    private String output = ConfigReader.DEFAULT_OUTPUT;

    /** How the ranks train together, with the other values of {@code device} as they are. */
    public Builder strategy(StrategySpec strategy) {
      this.device = device.withStrategy(strategy);
      return this;
    }

    public Builder device(DeviceConfig value) {
      this.device = value;
      return this;
    }

    public Builder data(DataConfig value) {
      this.data = value;
      return this;
    }

    public Builder model(ModelSpec value) {
      this.model = value;
      return this;
    }

    /** Weights to start from: a safetensors file or a run folder; random ones by default. */
    public Builder init(@Nullable String path) {
      this.init = path;
      return this;
    }

    public Builder loss(Losses value) {
      this.loss = value;
      return this;
    }

    public Builder optimizer(OptimizerSpec value) {
      this.optimizer = value;
      return this;
    }

    public Builder schedule(ScheduleSpec value) {
      this.schedule = value;
      return this;
    }

    public Builder training(TrainingConfig value) {
      this.training = value;
      return this;
    }

    public Builder metrics(MetricsConfig value) {
      this.metrics = value;
      return this;
    }

    public Builder output(String folder) {
      this.output = folder;
      return this;
    }

    /**
     * @throws IllegalArgumentException if data or model are not set
     */
    public TrainerConfig build() {
      if (data == null || model == null) {
        throw new IllegalArgumentException(
            "Cannot build a configuration: expected data and model, got no "
                + (data == null ? "data" : "model")
                + ".");
      }
      return new TrainerConfig(
          device, data, model, init, loss, optimizer, schedule, training, metrics, output);
    }
  }
}
