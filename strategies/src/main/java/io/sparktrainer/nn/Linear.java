package io.sparktrainer.nn;

import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptional;
import org.bytedeco.pytorch.global.torch;
import org.jspecify.annotations.Nullable;

/** y = x W^T + b: input [..., in], output [..., out], weight [out, in], bias [out]. */
public final class Linear extends Block {
  private final Tensor weight;
  private final @Nullable Tensor bias;

  /** With the given first values. */
  Linear(Tensor weight, @Nullable Tensor bias) {
    this.weight = parameter("weight", weight);
    this.bias = bias == null ? null : parameter("bias", bias);
  }

  /** With bias. */
  public Linear(long in, long out) {
    this(Init.weight(out, in), Init.bias(out, in));
  }

  private Linear(Tensor tied) {
    this.weight = tie("weight", tied);
    this.bias = null;
  }

  public static Linear withoutBias(long in, long out) {
    return new Linear(Init.weight(out, in), null);
  }

  /**
   * Without bias, and with another block's weight [out, in] for its own, as {@link Block#tie} does.
   */
  public static Linear tiedTo(Tensor weight) {
    return new Linear(weight);
  }

  /** The weight [out, in], for tying. */
  public Tensor weight() {
    return weight;
  }

  @Override
  protected Tensor forward(Tensor... inputs) {
    return torch.linear(
        inputs[0], weight, bias == null ? new TensorOptional() : new TensorOptional(bias));
  }
}
