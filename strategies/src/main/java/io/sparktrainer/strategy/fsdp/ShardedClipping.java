package io.sparktrainer.strategy.fsdp;

import io.sparktrainer.comm.Communicator;
import io.sparktrainer.comm.ReduceOp;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.Gradients;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.util.ArrayList;
import java.util.List;
import org.bytedeco.javacpp.DoublePointer;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.ScalarOptional;
import org.bytedeco.pytorch.Tensor;

/**
 * Clipping of gradients that lie in shards. The norm is that of the whole model: squares are summed
 * over the shard group, where each element is held once, and not over replicas.
 */
final class ShardedClipping {
  private static final double EPSILON = 1e-6;

  private final List<FlatParameter> flats;
  private final Communicator shardGroup;
  private final Device device;

  ShardedClipping(List<FlatParameter> flats, Communicator shardGroup, Device device) {
    this.flats = flats;
    this.shardGroup = shardGroup;
    this.device = device;
  }

  /** See {@link io.sparktrainer.strategy.ParallelStrategy#clipGradNorm}. */
  double byNorm(double maxNorm) {
    if (!(maxNorm > 0)) {
      throw new IllegalArgumentException(
          "Cannot clip gradients: expected a norm of more than 0, got " + maxNorm + ".");
    }
    try (var scope = NativeScope.open();
        var off = Gradients.off()) {
      double norm = Math.sqrt(sumOverShards(localSquares()));
      double factor = maxNorm / (norm + EPSILON);
      // A norm that is no number spreads, as it does in training with one process.
      if (!(factor >= 1)) {
        Scalar scale = Tensors.scalar(factor);
        reduced().forEach(gradient -> gradient.mul_(scale));
      }
      return norm;
    }
  }

  private double localSquares() {
    double squares = 0;
    for (Tensor gradient : reduced()) {
      DType wide = DType.of(gradient) == DType.FLOAT64 ? DType.FLOAT64 : DType.FLOAT32;
      double norm =
          gradient.norm(new ScalarOptional(Tensors.scalar(2)), wide.scalarType()).item_double();
      squares += norm * norm;
    }
    return squares;
  }

  private double sumOverShards(double local) {
    if (shardGroup.worldSize() == 1) {
      return local;
    }
    Tensor sum = Tensors.empty(DType.FLOAT64, Device.CPU, 1);
    new DoublePointer(sum.data_ptr()).put(local);
    Tensor onDevice = device.isCuda() ? sum.to(device.toNative(), DType.FLOAT64.scalarType()) : sum;
    shardGroup.allReduce(onDevice, ReduceOp.SUM).awaitOnHost();
    return onDevice.item_double();
  }

  /** See {@link io.sparktrainer.strategy.ParallelStrategy#clipGradValue}. */
  void byValue(double limit) {
    if (!(limit > 0)) {
      throw new IllegalArgumentException(
          "Cannot clip gradients: expected a limit of more than 0, got " + limit + ".");
    }
    try (var scope = NativeScope.open();
        var off = Gradients.off()) {
      ScalarOptional low = new ScalarOptional(Tensors.scalar(-limit));
      ScalarOptional high = new ScalarOptional(Tensors.scalar(limit));
      reduced().forEach(gradient -> gradient.clamp_(low, high));
    }
  }

  /** Reduced shards; what no rank used is zero in them. */
  private List<Tensor> reduced() {
    requireReduced();
    List<Tensor> found = new ArrayList<>();
    for (FlatParameter flat : flats) {
      Tensor gradient = flat.gradient().reduced();
      if (gradient != null && gradient.numel() > 0) {
        found.add(gradient);
      }
    }
    return found;
  }

  private void requireReduced() {
    for (FlatParameter flat : flats) {
      if (flat.gradient().state() == FlatGradient.State.ATTACHED) {
        throw new IllegalStateException(
            "Cannot clip gradients: expected gradients that are reduced over the ranks, got sums of this rank. Let the last micro-batch of the step use GradientSync.REDUCE.");
      }
    }
  }
}
