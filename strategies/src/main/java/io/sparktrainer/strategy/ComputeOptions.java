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
 * @param device where this rank's model computes; {@code none}, {@code ddp} and {@code fsdp} move
 *     the model there, {@code dp} goes by its own {@code device_ids}
 */
public record ComputeOptions(
    Precision precision,
    @Nullable CheckpointPolicy activationCheckpointing,
    GradScaler.Options scaler,
    Device device) {
  /** Full precision, no checkpointing, on the CPU. */
  public static ComputeOptions defaults() {
    return new Builder().build();
  }

  public static Builder builder() {
    return new Builder();
  }

  /** The same on another device. */
  public ComputeOptions withDevice(Device other) {
    return new ComputeOptions(precision, activationCheckpointing, scaler, other);
  }

  /** Sets options by name; what is not set keeps its default. */
  public static final class Builder {
    private Precision precision = Precision.NONE;
    private @Nullable CheckpointPolicy activationCheckpointing;
    private GradScaler.Options scaler = GradScaler.Options.defaults();
    private Device device = Device.CPU;

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

    public Builder device(Device value) {
      this.device = value;
      return this;
    }

    public ComputeOptions build() {
      return new ComputeOptions(precision, activationCheckpointing, scaler, device);
    }
  }
}
