package io.sparktrainer.nn;

import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.Rng;
import io.sparktrainer.torch.Tensors;
import org.bytedeco.pytorch.Tensor;

/**
 * First values of parameters, drawn from the calling thread's {@link Rng}: PyTorch's default
 * distributions, so that a model starts as its PyTorch twin would.
 *
 * <p>Each returns the one owning handle to its tensor, so that closing it frees the memory even
 * where no scope is open.
 */
public final class Init {
  private Init() {}

  /** Uniform in [-bound, bound), float32. */
  public static Tensor uniform(double bound, long... shape) {
    Tensor tensor = Tensors.empty(DType.FLOAT32, Device.CPU, shape);
    tensor.uniform_(-bound, bound, Rng.generator());
    return tensor;
  }

  /** Normal with mean 0, float32. */
  public static Tensor normal(double standardDeviation, long... shape) {
    Tensor tensor = Tensors.empty(DType.FLOAT32, Device.CPU, shape);
    tensor.normal_(0, standardDeviation, Rng.generator());
    return tensor;
  }

  /** {@code shape} filled with {@code value}, float32. */
  public static Tensor constant(double value, long... shape) {
    Tensor tensor = Tensors.empty(DType.FLOAT32, Device.CPU, shape);
    tensor.fill_(Tensors.scalar(value));
    return tensor;
  }

  /**
   * Weight of a linear or convolution layer: uniform with bound 1/sqrt(fan in), where fan in is the
   * product of all sizes but the first. It is He's initialisation (arXiv 1502.01852) with slope
   * sqrt(5), PyTorch's default.
   */
  public static Tensor weight(long... shape) {
    return uniform(bound(shape), shape);
  }

  /** Bias beside a weight of {@code weightShape}: uniform with the same bound. */
  public static Tensor bias(long... weightShape) {
    return uniform(bound(weightShape), weightShape[0]);
  }

  private static double bound(long... weightShape) {
    long fanIn = 1;
    for (int i = 1; i < weightShape.length; i++) {
      fanIn *= weightShape[i];
    }
    return fanIn == 0 ? 0 : 1 / Math.sqrt((double) fanIn);
  }
}
