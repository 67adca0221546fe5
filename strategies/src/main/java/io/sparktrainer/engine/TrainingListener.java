package io.sparktrainer.engine;

/** Told of progress on one rank, on the thread that trains. What it throws ends the training. */
public interface TrainingListener {
  /** After each optimizer step. */
  default void onStep(StepMetrics step) {}

  /** After each epoch and its evaluation. */
  default void onEpoch(EpochMetrics epoch) {}
}
