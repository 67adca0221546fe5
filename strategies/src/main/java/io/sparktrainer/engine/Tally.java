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
  private double weightSum;
  private long rows;
  private double predictions;
  private double right;

  Tally(Loss loss) {
    this.loss = loss;
  }

  /** The loss, which also counts right predictions as it is computed; replicas may share it. */
  Loss counting() {
    return new Loss() {
      @Override
      public Tensor of(Tensor output, Tensor target) {
        Tensor value = loss.of(output, target);
        count(output, target, null);
        return value;
      }

      @Override
      public Tensor weighted(Tensor output, Tensor target, Tensor weight) {
        Tensor value = loss.weighted(output, target, weight);
        count(output, target, weight);
        return value;
      }
    };
  }

  /** After the loss, which checks the shapes: here they would broadcast, or fail without a name. */
  private void count(Tensor output, Tensor target, @Nullable Tensor weight) {
    if (!hasClasses()) {
      return;
    }
    try (var scope = NativeScope.open();
        var off = Gradients.off()) {
      Tensor guess =
          loss == Losses.CROSS_ENTROPY
              ? output.argmax(new LongOptional(-1), false)
              : output.gt(Tensors.scalar(0)).view_as(target);
      Tensor hits = guess.eq(target);
      double hitSum;
      double all = target.numel();
      if (weight == null) {
        hitSum = hits.sum().item_long();
      } else {
        long inRow = target.numel() / weight.numel();
        Tensor byRow = hits.view(weight.numel(), inRow).sum(1);
        hitSum = byRow.mul(weight).sum().item_double();
        all = weight.sum().item_double() * inRow;
      }
      synchronized (this) {
        right += hitSum;
        predictions += all;
      }
    }
  }

  private boolean hasClasses() {
    return loss == Losses.CROSS_ENTROPY || loss == Losses.BINARY_CROSS_ENTROPY;
  }

  /**
   * Adds a batch.
   *
   * @param batchLoss sum of the rows' losses, each times its weight
   * @param batchWeight sum of the rows' weights
   */
  void add(double batchLoss, double batchWeight, int batchRows) {
    lossSum += batchLoss;
    weightSum += batchWeight;
    rows += batchRows;
  }

  /** Adds the other ranks' sums to this rank's; all ranks call it together. */
  void combine(Communicator communicator) {
    try (var scope = NativeScope.open()) {
      Tensor sums = Tensors.empty(DType.FLOAT64, Device.CPU, 5);
      DoublePointer values = new DoublePointer(sums.data_ptr());
      values.put(lossSum, weightSum, rows, predictions, right);
      communicator.allReduce(sums, ReduceOp.SUM).await();
      lossSum = values.get(0);
      weightSum = values.get(1);
      rows = (long) values.get(2);
      predictions = values.get(3);
      right = values.get(4);
    }
  }

  /**
   * Fails where no row counts.
   *
   * @param what the rows, for the message
   */
  void requireWeight(String what) {
    if (rows > 0 && weightSum == 0) {
      throw new IllegalArgumentException(
          "expected a weight above 0 in some %s row, got 0 in all %d. Look into the weight column"
              .formatted(what, rows));
    }
  }

  long rows() {
    return rows;
  }

  /** Mean over all rows, each with its weight. */
  double loss() {
    return lossSum / weightSum;
  }

  /** Share of the right predictions, each with its row's weight. */
  @Nullable Double accuracy() {
    return predictions == 0 ? null : right / predictions;
  }
}
