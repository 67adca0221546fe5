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
 * @param resources what the training stage asks of Spark for each rank
 * @param nccl environment of NCCL; nothing by default
 */
public record DeviceConfig(
    DeviceType type,
    StrategySpec strategy,
    int timeoutSeconds,
    Precision precision,
    CheckpointedActivations activationCheckpointing,
    DeviceResources resources,
    NcclSettings nccl) {
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
    requireNonNull(resources, "resources");
    requireNonNull(nccl, "nccl");
    if (timeoutSeconds < 1) {
      throw new IllegalArgumentException(
          "Cannot use timeout_seconds " + timeoutSeconds + ": expected at least 1 s.");
    }
  }

  static DeviceConfig defaults() {
    return builder().build();
  }

  public static Builder builder() {
    return new Builder();
  }

  private Builder toBuilder() {
    return builder()
        .type(type)
        .strategy(strategy)
        .timeoutSeconds(timeoutSeconds)
        .precision(precision)
        .activationCheckpointing(activationCheckpointing)
        .resources(resources)
        .nccl(nccl);
  }

  /** The same with another strategy, and without NCCL's settings where that has no use for them. */
  public DeviceConfig withStrategy(StrategySpec other) {
    return toBuilder().strategy(other).nccl(exchanges(other) ? nccl : NcclSettings.none()).build();
  }

  /** The same with another precision and other checkpointing. */
  public DeviceConfig withComputation(
      Precision otherPrecision, CheckpointedActivations otherCheckpointing) {
    return toBuilder()
        .precision(otherPrecision)
        .activationCheckpointing(otherCheckpointing)
        .build();
  }

  /** Whether ranks of the strategy send each other tensors. */
  static boolean exchanges(StrategySpec strategy) {
    return !(strategy instanceof StrategySpec.None || strategy instanceof StrategySpec.Dp);
  }

  /** GPUs that a rank of the strategy computes on, should it compute on GPUs. */
  static int devicesPerRank(StrategySpec strategy) {
    return strategy instanceof StrategySpec.Dp dp ? dp.replicas() : 1;
  }

  /** How a rank computes, on the CPU until the ranks have agreed on devices. */
  public ComputeOptions computeOptions() {
    return ComputeOptions.builder()
        .precision(precision)
        .activationCheckpointing(
            activationCheckpointing == CheckpointedActivations.BLOCKS
                ? CheckpointPolicy.units()
                : null)
        .build();
  }

  /** Sets values by name; what is not set keeps its default. */
  public static final class Builder {
    private DeviceType type = DeviceType.AUTO;
    private StrategySpec strategy = new StrategySpec.None(0);
    private int timeoutSeconds = DEFAULT_TIMEOUT_SECONDS;
    private Precision precision = Precision.NONE;
    private CheckpointedActivations activationCheckpointing = CheckpointedActivations.NONE;
    private DeviceResources resources = DeviceResources.defaults();
    private NcclSettings nccl = NcclSettings.none();

    public Builder type(DeviceType value) {
      this.type = value;
      return this;
    }

    public Builder strategy(StrategySpec value) {
      this.strategy = value;
      return this;
    }

    /** How long a rank waits for its peers. */
    public Builder timeoutSeconds(int seconds) {
      this.timeoutSeconds = seconds;
      return this;
    }

    public Builder precision(Precision value) {
      this.precision = value;
      return this;
    }

    public Builder activationCheckpointing(CheckpointedActivations value) {
      this.activationCheckpointing = value;
      return this;
    }

    public Builder resources(DeviceResources value) {
      this.resources = value;
      return this;
    }

    public Builder nccl(NcclSettings value) {
      this.nccl = value;
      return this;
    }

    /**
     * @throws IllegalArgumentException if a value is not allowed
     */
    public DeviceConfig build() {
      return new DeviceConfig(
          type, strategy, timeoutSeconds, precision, activationCheckpointing, resources, nccl);
    }
  }
}
