package io.sparktrainer.engine;

import java.util.List;
import org.bytedeco.pytorch.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * Rows to train on or to evaluate.
 *
 * @param inputs the model's inputs, each [rows, ...]
 * @param target what the loss compares with, [rows, ...]
 * @param weight how much each row counts, [rows] floating point and not negative, or null where all
 *     count alike
 * @param rows number of rows
 */
public record TensorBatch(List<Tensor> inputs, Tensor target, @Nullable Tensor weight, int rows) {
  public TensorBatch {
    inputs = List.copyOf(inputs);
    if (inputs.isEmpty() || rows < 1) {
      throw new IllegalArgumentException(
          "Cannot use a batch: expected at least one input and one row, got %d inputs and %d rows."
              .formatted(inputs.size(), rows));
    }
  }

  /** A batch whose rows all count alike. */
  public TensorBatch(List<Tensor> inputs, Tensor target, int rows) {
    this(inputs, target, null, rows);
  }

  Tensor[] inputArray() {
    return inputs.toArray(Tensor[]::new);
  }

  /** Sum of the rows' weights; their number where all count alike. */
  double weightSum() {
    return weight == null ? rows : weight.sum().item_double();
  }
}
