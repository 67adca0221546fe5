package io.sparktrainer.spark;

import io.sparktrainer.data.EpochPlan;
import io.sparktrainer.spark.config.TrainerConfig;
import io.sparktrainer.spark.config.TrainingConfig;
import io.sparktrainer.spark.metrics.MetricRecord;

/** The steps of a training, as they follow from the ranks' rows. */
final class PlannedSteps {
  private PlannedSteps() {}

  /**
   * @param plan batches of an epoch
   * @param testRows rows for testing, over all ranks
   */
  static MetricRecord.Start of(TrainerConfig config, EpochPlan plan, long testRows) {
    TrainingConfig training = config.training();
    long steps = (plan.steps() + training.accumulate() - 1) / training.accumulate();
    return new MetricRecord.Start(
        plan.totalRows(), testRows, steps, Math.multiplyExact(steps, (long) training.epochs()));
  }
}
