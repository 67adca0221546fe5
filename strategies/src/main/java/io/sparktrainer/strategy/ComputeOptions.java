package io.sparktrainer.strategy;

import io.sparktrainer.nn.CheckpointPolicy;
import io.sparktrainer.torch.Device;
import org.jspecify.annotations.Nullable;

/**
 * How a rank computes forward and backward, whatever the strategy.
 *
 * @param precision type of the large operations
 * @param activationCheckpointing blocks whose activations are computed a second time in backward
 *     instead of being kept, or null for none
 * @param scaler how the loss is scaled where {@code precision} needs it
 * @param deviceType where the ranks' devices are
 */
public record ComputeOptions(
    Precision precision,
    @Nullable CheckpointPolicy activationCheckpointing,
    GradScaler.Options scaler,
    Device.Type deviceType) {
  /** Full precision, no checkpointing, on the CPU. */
  public static ComputeOptions defaults() {
    return new Builder().build();
  }

  public static Builder builder() {
    return new Builder();
  }

  /** Sets options by name; what is not set keeps its default. */
  public static final class Builder {
    private Precision precision = Precision.NONE;
    private @Nullable CheckpointPolicy activationCheckpointing;
    private GradScaler.Options scaler = GradScaler.Options.defaults();
    private Device.Type deviceType = Device.Type.CPU;

    public Builder precision(Precision value) {
      this.precision = value;
      return this;
    }

    public Builder activationCheckpointing(@Nullable CheckpointPolicy policy) {
      this.activationCheckpointing = policy;
      return this;
    }

    public Builder scaler(GradScaler.Options options) {
      this.scaler = options;
      return this;
    }

    public Builder deviceType(Device.Type type) {
      this.deviceType = type;
      return this;
    }

    public ComputeOptions build() {
      return new ComputeOptions(precision, activationCheckpointing, scaler, deviceType);
    }
  }
}
