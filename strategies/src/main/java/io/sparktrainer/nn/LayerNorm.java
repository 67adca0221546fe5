package io.sparktrainer.nn;

import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptional;
import org.bytedeco.pytorch.global.torch;

/**
 * Layer normalisation (arXiv 1607.06450) over the last dimension with epsilon 1e-5: input and
 * output [..., width], weight and bias [width].
 */
public final class LayerNorm extends Block {
  private static final double EPSILON = 1e-5;

  private final Tensor weight;
  private final Tensor bias;
  private final long[] shape;

  public LayerNorm(long width) {
    this.weight = parameter("weight", Init.constant(1, width));
    this.bias = parameter("bias", Init.constant(0, width));
    this.shape = new long[] {width};
  }

  @Override
  protected Tensor forward(Tensor... inputs) {
    return torch.layer_norm(
        inputs[0], shape, new TensorOptional(weight), new TensorOptional(bias), EPSILON, true);
  }
}
