package io.sparktrainer.strategy;

/** What happens to the gradients of one backward pass. */
public enum GradientSync {
  /** They are combined over the ranks: the last micro-batch of a step. */
  REDUCE,
  /** They only add up on this rank: earlier micro-batches of a step. */
  ACCUMULATE
}
