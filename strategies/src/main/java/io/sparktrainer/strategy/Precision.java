package io.sparktrainer.strategy;

import io.sparktrainer.torch.Autocast;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;

/**
 * The type in which matrix products and convolutions of forward and loss are computed. Parameters,
 * gradients and optimizer state stay float32.
 */
public enum Precision {
  /** Everything in the parameters' own type. */
  NONE(DType.FLOAT32),
  /** bfloat16: float32's range, 8 bits of precision. */
  BF16(DType.BFLOAT16),
  /**
   * float16: 11 bits of precision, largest value 65,504. Small gradients would vanish, so the loss
   * is scaled by a {@link GradScaler}.
   */
  FP16(DType.FLOAT16);

  private final DType dtype;

  Precision(DType dtype) {
    this.dtype = dtype;
  }

  /** The type itself, float32 for {@link #NONE}. */
  public DType dtype() {
    return dtype;
  }

  /** Lets the calling thread compute in this precision until the result is closed. */
  public Autocast open(Device device) {
    return Autocast.to(dtype, device.type());
  }

  /** Whether the loss has to be scaled so that small gradients survive. */
  public boolean needsScaling() {
    return this == FP16;
  }
}
