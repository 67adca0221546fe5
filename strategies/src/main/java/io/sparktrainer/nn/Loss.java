package io.sparktrainer.nn;

import org.bytedeco.pytorch.Tensor;

/** Compares a model's output with what was expected; mean over all targets of the batch. */
@FunctionalInterface
public interface Loss {
  /**
   * @param output what the model computed
   * @param target what was expected
   * @return 0-dimensional tensor, the mean over all targets
   */
  Tensor of(Tensor output, Tensor target);

  /**
   * The same with a weight per row.
   *
   * @param output what the model computed, [rows, ...]
   * @param target what was expected
   * @param weight weights of the rows, [rows] floating point, not negative
   * @return 0-dimensional tensor: each row's own mean times its weight, summed up and divided by
   *     the number of rows, so with weights of 1 the same as {@link #of}
   * @throws UnsupportedOperationException if the loss does not come apart into rows
   */
  default Tensor weighted(Tensor output, Tensor target, Tensor weight) {
    throw new UnsupportedOperationException(
        "Cannot weight the rows of a loss: expected one that knows each row's part, got "
            + this
            + ". Override Loss.weighted, or train without a weight column.");
  }
}
