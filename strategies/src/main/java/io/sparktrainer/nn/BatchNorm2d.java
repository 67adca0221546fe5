package io.sparktrainer.nn;

import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.Tensors;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptional;
import org.bytedeco.pytorch.global.torch;

/**
 * Batch normalisation (arXiv 1502.03167) over [n, channels, h, w] with momentum 0.1 and epsilon
 * 1e-5. Buffers: {@code running_mean}, {@code running_var} (float32 [channels]) and {@code
 * num_batches_tracked} (int64 scalar).
 */
public final class BatchNorm2d extends Block {
  public static final double MOMENTUM = 0.1;
  public static final double EPSILON = 1e-5;

  private final Tensor weight;
  private final Tensor bias;
  private final Tensor runningMean;
  private final Tensor runningVar;
  private final Tensor batches;

  public BatchNorm2d(long channels) {
    this.weight = parameter("weight", Init.constant(1, channels));
    this.bias = parameter("bias", Init.constant(0, channels));
    this.runningMean = buffer("running_mean", Init.constant(0, channels));
    this.runningVar = buffer("running_var", Init.constant(1, channels));
    this.batches = buffer("num_batches_tracked", Tensors.zeros(DType.INT64, Device.CPU));
  }

  @Override
  protected Tensor forward(Tensor... inputs) {
    if (training()) {
      batches.add_(new Scalar(1));
    }
    return torch.batch_norm(
        inputs[0],
        new TensorOptional(weight),
        new TensorOptional(bias),
        new TensorOptional(runningMean),
        new TensorOptional(runningVar),
        training(),
        MOMENTUM,
        EPSILON,
        false);
  }
}
