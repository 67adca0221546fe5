package io.sparktrainer.nn;

import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.Tensors;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Set;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptional;
import org.bytedeco.pytorch.global.torch;

/**
 * Batch normalisation (arXiv 1502.03167) over every axis but the second, with momentum 0.1 and
 * epsilon 1e-5. Parameters {@code weight} and {@code bias}; buffers {@code running_mean}, {@code
 * running_var} (all float32 [channels]) and {@code num_batches_tracked} (int64 scalar).
 *
 * <p>A batch with one value per channel has no variance. In training it is normalised by the
 * running statistics and leaves them as they are, where PyTorch has an error.
 */
public abstract sealed class BatchNorm extends Block permits BatchNorm1d, BatchNorm2d {
  public static final double MOMENTUM = 0.1;
  public static final double EPSILON = 1e-5;

  private final Tensor weight;
  private final Tensor bias;
  private final Tensor runningMean;
  private final Tensor runningVar;
  private final Tensor batches;

  BatchNorm(long channels) {
    this.weight = parameter("weight", Init.constant(1, channels));
    this.bias = parameter("bias", Init.constant(0, channels));
    this.runningMean = buffer("running_mean", Init.constant(0, channels));
    this.runningVar = buffer("running_var", Init.constant(1, channels));
    this.batches = buffer("num_batches_tracked", Tensors.zeros(DType.INT64, Device.CPU));
  }

  /**
   * The parameters and buffers of all batch normalisations in {@code model}, told apart by
   * identity: what keeps its element type where the rest of a model computes in a lower precision.
   */
  public static Set<Tensor> tensorsIn(Block model) {
    Set<Tensor> tensors = Collections.newSetFromMap(new IdentityHashMap<>());
    for (Block block : model.blocks().values()) {
      if (block instanceof BatchNorm) {
        tensors.addAll(block.parameters().values());
        tensors.addAll(block.buffers().values());
      }
    }
    return tensors;
  }

  @Override
  protected Tensor forward(Tensor... inputs) {
    boolean batchStatistics = training() && inputs[0].numel() > inputs[0].size(1);
    if (batchStatistics) {
      batches.add_(new Scalar(1));
    }
    return torch.batch_norm(
        inputs[0],
        new TensorOptional(weight),
        new TensorOptional(bias),
        new TensorOptional(runningMean),
        new TensorOptional(runningVar),
        batchStatistics,
        MOMENTUM,
        EPSILON,
        false);
  }
}
