package io.sparktrainer.engine;

import org.jspecify.annotations.Nullable;

/**
 * How the loop runs.
 *
 * @param epochs passes over the data, at least 1
 * @param accumulate micro-batches per optimizer step, at least 1; the last step of an epoch takes
 *     what is left
 * @param clipGradNorm largest 2-norm of all gradients, or null for no limit
 * @param clipGradValue largest absolute value of a gradient's element, or null for no limit
 * @param seed start of the random numbers of dropout; each rank derives its own
 */
public record TrainingOptions(
    int epochs,
    int accumulate,
    @Nullable Double clipGradNorm,
    @Nullable Double clipGradValue,
    long seed) {
  public TrainingOptions {
    requirePositive("epochs", epochs);
    requirePositive("accumulate", accumulate);
    requirePositive("clip_grad_norm", clipGradNorm == null ? 1 : clipGradNorm);
    requirePositive("clip_grad_value", clipGradValue == null ? 1 : clipGradValue);
  }

  private static void requirePositive(String name, double value) {
    if (!(value > 0)) {
      throw new IllegalArgumentException(
          "Cannot train with %s %s: expected more than 0.".formatted(name, value));
    }
  }
}
