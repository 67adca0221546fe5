package io.sparktrainer.engine;

import java.util.List;
import org.bytedeco.pytorch.Tensor;

/**
 * Rows to train on or to evaluate.
 *
 * @param inputs the model's inputs, each [rows, ...]
 * @param target what the loss compares with, [rows, ...]
 * @param rows number of rows
 */
public record TensorBatch(List<Tensor> inputs, Tensor target, int rows) {
  public TensorBatch {
    inputs = List.copyOf(inputs);
    if (inputs.isEmpty() || rows < 1) {
      throw new IllegalArgumentException(
          "Cannot use a batch: expected at least one input and one row, got %d inputs and %d rows."
              .formatted(inputs.size(), rows));
    }
  }

  Tensor[] inputArray() {
    return inputs.toArray(Tensor[]::new);
  }
}
