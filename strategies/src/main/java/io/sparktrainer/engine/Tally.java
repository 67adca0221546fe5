package io.sparktrainer.engine;

import io.sparktrainer.comm.Communicator;
import io.sparktrainer.comm.ReduceOp;
import io.sparktrainer.nn.Loss;
import io.sparktrainer.nn.Losses;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.Gradients;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import org.bytedeco.javacpp.DoublePointer;
import org.bytedeco.pytorch.LongOptional;
import org.bytedeco.pytorch.Tensor;
import org.jspecify.annotations.Nullable;

/** Adds up losses and right predictions, first of this rank, then over all ranks. */
final class Tally {
  private final Loss loss;
  private double lossSum;
  private long rows;
  private long predictions;
  private long right;

  Tally(Loss loss) {
    this.loss = loss;
  }

  /** The loss, which also counts right predictions as it is computed; replicas may share it. */
  Loss counting() {
    return (output, target) -> {
      count(output, target);
      return loss.of(output, target);
    };
  }

  private void count(Tensor output, Tensor target) {
    if (!hasClasses()) {
      return;
    }
    try (var scope = NativeScope.open();
        var off = Gradients.off()) {
      Tensor guess =
          loss == Losses.CROSS_ENTROPY
              ? output.argmax(new LongOptional(-1), false)
              : output.gt(Tensors.scalar(0)).view_as(target);
      long hits = guess.eq(target).sum().item_long();
      synchronized (this) {
        right += hits;
        predictions += target.numel();
      }
    }
  }

  private boolean hasClasses() {
    return loss == Losses.CROSS_ENTROPY || loss == Losses.BINARY_CROSS_ENTROPY;
  }

  void add(double meanLoss, int batchRows) {
    lossSum += meanLoss * batchRows;
    rows += batchRows;
  }

  /** Adds the other ranks' sums to this rank's; all ranks call it together. */
  void combine(Communicator communicator) {
    try (var scope = NativeScope.open()) {
      Tensor sums = Tensors.empty(DType.FLOAT64, Device.CPU, 4);
      DoublePointer values = new DoublePointer(sums.data_ptr());
      values.put(lossSum, rows, predictions, right);
      communicator.allReduce(sums, ReduceOp.SUM).await();
      lossSum = values.get(0);
      rows = (long) values.get(1);
      predictions = (long) values.get(2);
      right = (long) values.get(3);
    }
  }

  long rows() {
    return rows;
  }

  double loss() {
    return lossSum / rows;
  }

  @Nullable Double accuracy() {
    return predictions == 0 ? null : (double) right / predictions;
  }
}
