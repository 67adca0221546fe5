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
}
