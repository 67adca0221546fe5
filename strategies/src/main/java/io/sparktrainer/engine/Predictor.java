package io.sparktrainer.engine;

import io.sparktrainer.strategy.ParallelStrategy;
import io.sparktrainer.torch.NativeScope;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.function.Consumer;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorVector;
import org.bytedeco.pytorch.global.torch;

/** Runs a model over many batches, in evaluation mode and without gradients. */
public final class Predictor {
  private final ParallelStrategy strategy;

  /** Uses, but does not close, {@code strategy}. */
  public Predictor(ParallelStrategy strategy) {
    this.strategy = strategy;
  }

  /**
   * Hands each batch's output to {@code receiver}, in the order of the batches, which are in host
   * memory. An output is on the strategy's device, and freed when the receiver returns. Targets of
   * the batches are not used. Where the strategy predicts together, all ranks call it together;
   * their numbers of batches may differ.
   */
  public void forEach(BatchSource batches, Consumer<Tensor> receiver) {
    boolean training = strategy.model().training();
    strategy.model().eval();
    try (var here = new DeviceBatches(batches, strategy.device())) {
      Iterator<TensorBatch> iterator = here.epoch(0);
      JointPrediction joint = new JointPrediction(batches.batchesPerEpoch(), strategy);
      for (int i = 0; i < batches.batchesPerEpoch(); i++) {
        try (var scope = NativeScope.open()) {
          receiver.accept(strategy.predict(iterator.next().inputArray()));
        }
      }
      joint.finish();
    } finally {
      if (training) {
        strategy.model().train();
      }
    }
  }

  /**
   * The outputs of all batches, joined along the first dimension, in the caller's scope.
   *
   * @throws IllegalArgumentException if there are no batches
   */
  public Tensor predict(BatchSource batches) {
    List<Tensor> outputs = new ArrayList<>();
    try (var scope = NativeScope.open()) {
      forEach(batches, output -> outputs.add(NativeScope.keep(output)));
      if (outputs.isEmpty()) {
        throw new IllegalArgumentException("Cannot predict: expected at least 1 batch, got none.");
      }
      return scope.pass(torch.cat(new TensorVector(outputs.toArray(Tensor[]::new))));
    } finally {
      outputs.forEach(Tensor::close);
    }
  }
}
