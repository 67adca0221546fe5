package io.sparktrainer.strategy;

/**
 * What happens when some ranks have fewer steps in an epoch than others; PyTorch's {@code join}.
 */
public enum UnevenInputs {
  /** An error on every rank before the epoch starts. */
  REFUSE,
  /**
   * Ranks without data take part in the others' steps with zero gradients; sums are divided by the
   * number of all ranks.
   */
  DIVIDE_BY_WORLD,
  /**
   * Ranks without data take part in the others' steps with zero gradients; sums are divided by the
   * number of ranks that still have data.
   */
  DIVIDE_BY_ACTIVE
}
