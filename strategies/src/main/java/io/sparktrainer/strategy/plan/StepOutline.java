package io.sparktrainer.strategy.plan;

import io.sparktrainer.optim.OptimizerSpec;
import io.sparktrainer.strategy.Precision;

/**
 * What a step does, as far as memory and communication depend on it.
 *
 * @param optimizer which updates the parameters
 * @param accumulate micro-batches per step; all but the last run without synchronising gradients
 * @param precision type of the large operations
 * @param activations what one micro-batch's forward keeps for backward
 */
public record StepOutline(
    OptimizerSpec optimizer, int accumulate, Precision precision, Activations activations) {
  public StepOutline {
    if (accumulate < 1) {
      throw new IllegalArgumentException(
          "Cannot plan a step: expected at least 1 micro-batch, got accumulate %d."
              .formatted(accumulate));
    }
  }

  /** One micro-batch in float32. */
  public static StepOutline of(OptimizerSpec optimizer, Activations activations) {
    return new StepOutline(optimizer, 1, Precision.NONE, activations);
  }

  /** Whether gradients of several micro-batches are added up. */
  boolean accumulates() {
    return accumulate > 1;
  }

  /** Tensors of a parameter's size that the optimizer keeps for it: SGD 0, momentum 1, Adam 2. */
  int statesPerParameter() {
    if (optimizer instanceof OptimizerSpec.Sgd sgd) {
      return sgd.momentum() == 0 ? 0 : 1;
    }
    if (optimizer instanceof OptimizerSpec.Adam adam) {
      return adam.amsgrad() ? 3 : 2;
    }
    return ((OptimizerSpec.AdamW) optimizer).amsgrad() ? 3 : 2;
  }
}
