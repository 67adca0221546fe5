package io.sparktrainer.engine;

import org.jspecify.annotations.Nullable;

/**
 * One epoch over all ranks.
 *
 * @param epoch number of the epoch, from 0
 * @param loss mean training loss over all rows of all ranks, each row at the time it was trained on
 * @param accuracy share of training rows predicted right, or null where the loss has no classes
 * @param evalLoss mean loss over the evaluation rows of all ranks, or null without such rows
 * @param evalAccuracy share of evaluation rows predicted right, or null
 * @param rows training rows of all ranks
 * @param seconds wall-clock time of training, without the evaluation
 */
public record EpochMetrics(
    int epoch,
    double loss,
    @Nullable Double accuracy,
    @Nullable Double evalLoss,
    @Nullable Double evalAccuracy,
    long rows,
    double seconds) {
  /** Training rows of all ranks per second. */
  public double samplesPerSecond() {
    return rows / seconds;
  }
}
