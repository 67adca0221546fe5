package io.sparktrainer.nn;

import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptional;
import org.bytedeco.pytorch.global.torch;

/**
 * Two-dimensional convolution with bias: input [n, in, h, w], weight [out, in, kernel, kernel],
 * output [n, out, (h + 2 padding - kernel) / stride + 1, ...].
 */
public final class Conv2d extends Block {
  private final Tensor weight;
  private final Tensor bias;
  private final long[] stride;
  private final long[] padding;

  /** Stride 1, no padding. */
  public Conv2d(long in, long out, long kernel) {
    this(in, out, kernel, 1, 0);
  }

  public Conv2d(long in, long out, long kernel, long stride, long padding) {
    this.weight = parameter("weight", Init.weight(out, in, kernel, kernel));
    this.bias = parameter("bias", Init.bias(out, in, kernel, kernel));
    this.stride = new long[] {stride, stride};
    this.padding = new long[] {padding, padding};
  }

  @Override
  protected Tensor forward(Tensor... inputs) {
    return torch.conv2d(
        inputs[0], weight, new TensorOptional(bias), stride, padding, new long[] {1, 1}, 1);
  }
}
