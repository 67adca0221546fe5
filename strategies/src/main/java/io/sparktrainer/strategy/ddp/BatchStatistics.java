package io.sparktrainer.strategy.ddp;

import io.sparktrainer.comm.Communicator;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Tensors;
import java.util.stream.IntStream;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptional;
import org.bytedeco.pytorch.global.torch;

/**
 * Statistics of the rows of all ranks, the same on every rank.
 *
 * @param mean [channels], float32 or wider
 * @param variance [channels], biased, of the same type
 * @param count values per channel over all ranks
 */
record BatchStatistics(Tensor mean, Tensor variance, double count) {
  /**
   * All ranks call it together.
   *
   * @param input this rank's rows, [rows, channels, ...]; there may be none
   * @throws IllegalArgumentException if all ranks together have less than 2 values per channel
   */
  static BatchStatistics gather(Tensor input, Communicator group) {
    Tensor x = atLeastFloat(input.detach());
    long channels = x.size(1);
    Tensor own = torch.zeros(new long[] {2 * channels + 1}, x.options());
    if (x.numel() > 0) {
      var local = torch.batch_norm_update_stats(x, new TensorOptional(), new TensorOptional(), 0);
      own.narrow(0, 0, channels).copy_(local.get0());
      own.narrow(0, channels, channels).copy_(local.get1());
      own.narrow(0, 2 * channels, 1).fill_(Tensors.scalar((double) x.numel() / channels));
    }
    Tensor all = torch.zeros(new long[] {group.worldSize(), 2 * channels + 1}, x.options());
    group.allGather(all, own).await();
    return merge(all, channels);
  }

  /** The parallel form of mean and variance (Chan, Golub and LeVeque, 1983). */
  private static BatchStatistics merge(Tensor all, long channels) {
    Tensor counts = all.narrow(1, 2 * channels, 1); // [ranks, 1]
    Tensor total = counts.sum();
    double count = total.item_double();
    if (count < 2) {
      throw new IllegalArgumentException(
          "Cannot normalise a batch: expected at least 2 values per channel over all ranks, got %d."
              .formatted((long) count));
    }
    Tensor means = all.narrow(1, 0, channels); // [ranks, channels]
    Tensor variances = all.narrow(1, channels, channels);
    Tensor mean = means.mul(counts).sum(0).div(total);
    Tensor variance = means.sub(mean).square().add(variances).mul(counts).sum(0).div(total);
    return new BatchStatistics(mean, variance, count);
  }

  /** {@code tensor}, in float32 if its own type is narrower. */
  static Tensor atLeastFloat(Tensor tensor) {
    return DType.of(tensor).bytes() < DType.FLOAT32.bytes()
        ? tensor.to(DType.FLOAT32.scalarType())
        : tensor;
  }

  /** One sum per channel of {@code tensor}, [rows, channels, ...]. */
  static Tensor perChannelSum(Tensor tensor) {
    int dims = (int) tensor.dim();
    return tensor.sum(IntStream.range(0, dims).filter(d -> d != 1).mapToLong(d -> d).toArray());
  }

  /** {@code values}, [channels], so that it lines up with {@code like}'s second dimension. */
  static Tensor alongChannels(Tensor values, Tensor like) {
    long[] shape = new long[(int) like.dim()];
    java.util.Arrays.fill(shape, 1);
    shape[1] = values.numel();
    return values.view(shape);
  }
}
