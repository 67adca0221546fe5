package io.sparktrainer.engine;

import io.sparktrainer.comm.ReduceOp;
import io.sparktrainer.strategy.ParallelStrategy;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import org.bytedeco.pytorch.Tensor;

/** Keeps ranks with different numbers of batches together where a prediction is a collective. */
final class JointPrediction {
  private final ParallelStrategy strategy;
  private final int missing;

  /** All ranks call it together before they predict {@code batches} batches each. */
  JointPrediction(int batches, ParallelStrategy strategy) {
    this.strategy = strategy;
    this.missing = strategy.predictsTogether() ? most(batches, strategy) - batches : 0;
  }

  private static int most(int mine, ParallelStrategy strategy) {
    try (var scope = NativeScope.open()) {
      Tensor most = Tensors.of(new long[] {mine}, 1);
      strategy.communicator().allReduce(most, ReduceOp.MAX).await();
      return (int) Tensors.toLongs(most)[0];
    }
  }

  /** After this rank's own batches, takes part in the predictions that other ranks still make. */
  void finish() {
    for (int i = 0; i < missing; i++) {
      strategy.joinPredict();
    }
  }
}
