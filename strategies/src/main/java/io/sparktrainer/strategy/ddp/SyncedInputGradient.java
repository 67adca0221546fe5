package io.sparktrainer.strategy.ddp;

import static io.sparktrainer.strategy.ddp.BatchStatistics.alongChannels;
import static io.sparktrainer.strategy.ddp.BatchStatistics.atLeastFloat;
import static io.sparktrainer.strategy.ddp.BatchStatistics.perChannelSum;

import io.sparktrainer.comm.Communicator;
import io.sparktrainer.comm.ReduceOp;
import io.sparktrainer.nn.BatchNorm;
import io.sparktrainer.torch.Gradients;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.util.List;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorBase;
import org.bytedeco.pytorch.TensorTensorHook;
import org.bytedeco.pytorch.TensorVector;
import org.bytedeco.pytorch.global.torch;
import org.jspecify.annotations.Nullable;

/**
 * Completes the input's gradient of one synchronised batch normalisation.
 *
 * <p>With the statistics for constants, the gradient d of an input element is weight times output
 * gradient over deviation. Since mean and variance depend on all n elements of a channel, x's
 * gradient is d - sum(d) / n - (x - mean) / (n * variance) * sum(d * (x - mean)), with sums over
 * all ranks.
 */
final class SyncedInputGradient extends TensorTensorHook {
  private final Communicator group;
  private final List<Tensor> results;
  private final double count;
  private @Nullable Tensor input;
  private final Tensor mean;
  private final Tensor variance;

  /**
   * Keeps what it needs of the forward pass until {@link #close()}.
   *
   * @param results what the last of a model's hooks to run has returned to libtorch; the next one
   *     to run frees it
   */
  SyncedInputGradient(
      Tensor input, BatchStatistics statistics, Communicator group, List<Tensor> results) {
    this.group = group;
    this.results = results;
    this.count = statistics.count();
    this.input = NativeScope.keep(input.detach());
    this.mean = NativeScope.keep(alongChannels(statistics.mean(), input));
    this.variance =
        NativeScope.keep(
            alongChannels(statistics.variance().add(Tensors.scalar(BatchNorm.EPSILON)), input));
  }

  @Override
  public TensorBase call(TensorBase gradient) {
    // The argument belongs to the scope around backward, which would keep it until the step ends.
    try (gradient;
        var scope = NativeScope.open();
        var off = Gradients.off()) {
      results.forEach(Tensor::close);
      results.clear();
      Tensor complete = NativeScope.keep(complete(new Tensor(gradient)));
      results.add(complete);
      return complete;
    }
  }

  private Tensor complete(Tensor direct) {
    Tensor x = input;
    if (x == null) {
      throw new IllegalStateException(
          "Cannot run backward twice through a synchronised batch normalisation: expected one backward pass per forward pass.");
    }
    Tensor wide = atLeastFloat(direct);
    Tensor centered = atLeastFloat(x).sub(mean);
    Tensor sums =
        torch.cat(new TensorVector(perChannelSum(wide), perChannelSum(wide.mul(centered))));
    group.allReduce(sums, ReduceOp.SUM).await();
    Scalar perElement = Tensors.scalar(1 / count);
    Tensor throughMean = sums.narrow(0, 0, mean.numel()).mul(perElement);
    Tensor throughVariance = sums.narrow(0, mean.numel(), mean.numel()).mul(perElement);
    Tensor slope = alongChannels(throughVariance, x).div(variance);
    x.close();
    input = null;
    return wide.sub(alongChannels(throughMean, wide))
        .sub(centered.mul(slope))
        .to(direct.scalar_type());
  }

  @Override
  public void close() {
    if (input != null) {
      input.close();
    }
    mean.close();
    variance.close();
    super.close();
  }
}
