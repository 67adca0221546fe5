package io.sparktrainer.nn;

import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptional;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch.MemoryFormat;

/**
 * Two-dimensional convolution with bias: input [n, in, h, w], weight [out, in, kernel, kernel],
 * output [n, out, (h + 2 padding - kernel) / stride + 1, ...].
 */
public final class Conv2d extends Block {
  private static final int CHANNELS_AT_ONCE = 16;

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
    return gradientReadsBeyondChannels(inputs[0])
        ? convolve(inputs[0].contiguous(MemoryFormat.ChannelsLast)).contiguous()
        : convolve(inputs[0]);
  }

  private Tensor convolve(Tensor input) {
    return torch.conv2d(
        input, weight, new TensorOptional(bias), stride, padding, new long[] {1, 1}, 1);
  }

  /**
   * On the CPU, libtorch 2.10's kernel for the gradient of the input handles channels in sixteens.
   * Where their number is none, it multiplies memory that it has not written by zero, and the
   * gradient is NaN whenever a NaN lies there. The kernel for channels-last inputs does not. (One
   * channel is the same in both layouts; but it is an image's, whose gradient nobody wants.)
   */
  private boolean gradientReadsBeyondChannels(Tensor input) {
    return input.is_cpu()
        && input.requires_grad()
        && (weight.size(0) % CHANNELS_AT_ONCE != 0 || weight.size(1) % CHANNELS_AT_ONCE != 0);
  }
}
