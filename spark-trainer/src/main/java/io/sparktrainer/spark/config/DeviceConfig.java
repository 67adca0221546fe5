package io.sparktrainer.spark.config;

import static java.util.Objects.requireNonNull;

import io.sparktrainer.nn.CheckpointPolicy;
import io.sparktrainer.strategy.ComputeOptions;
import io.sparktrainer.strategy.Precision;
import io.sparktrainer.strategy.StrategySpec;

/**
 * Section {@code device}.
 *
 * @param type kind of device; {@code auto} by default
 * @param strategy how the ranks train together; {@code none} by default
 * @param timeoutSeconds how long a rank waits for its peers, when they connect and in each
 *     collective; 300 by default
 * @param precision type of the large operations; {@code none}, full precision, by default
 * @param activationCheckpointing which activations are computed twice instead of being kept; {@code
 *     none} by default
 */
public record DeviceConfig(
    DeviceType type,
    StrategySpec strategy,
    int timeoutSeconds,
    Precision precision,
    CheckpointedActivations activationCheckpointing) {
  static final int DEFAULT_TIMEOUT_SECONDS = 300;

  /** What {@code activation_checkpointing} chooses. */
  public enum CheckpointedActivations {
    NONE,
    /** Those inside the model's blocks that are marked as units, such as a gpt's. */
    BLOCKS
  }

  public DeviceConfig {
    requireNonNull(type, "type");
    requireNonNull(strategy, "strategy");
    requireNonNull(precision, "precision");
    requireNonNull(activationCheckpointing, "activationCheckpointing");
    if (timeoutSeconds < 1) {
      throw new IllegalArgumentException(
          "Cannot use timeout_seconds " + timeoutSeconds + ": expected at least 1 s.");
    }
  }

  static DeviceConfig defaults() {
    return new DeviceConfig(
        DeviceType.AUTO,
        new StrategySpec.None(0),
        DEFAULT_TIMEOUT_SECONDS,
        Precision.NONE,
        CheckpointedActivations.NONE);
  }

  /** The same with another strategy. */
  public DeviceConfig withStrategy(StrategySpec other) {
    return new DeviceConfig(type, other, timeoutSeconds, precision, activationCheckpointing);
  }

  /** The same with another precision and other checkpointing. */
  public DeviceConfig withComputation(
      Precision otherPrecision, CheckpointedActivations otherCheckpointing) {
    return new DeviceConfig(type, strategy, timeoutSeconds, otherPrecision, otherCheckpointing);
  }

  /** How a rank computes. */
  public ComputeOptions computeOptions() {
    return ComputeOptions.builder()
        .precision(precision)
        .activationCheckpointing(
            activationCheckpointing == CheckpointedActivations.BLOCKS
                ? CheckpointPolicy.units()
                : null)
        .build();
  }
}
