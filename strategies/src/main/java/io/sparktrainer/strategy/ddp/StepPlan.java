package io.sparktrainer.strategy.ddp;

import java.util.Arrays;
import java.util.stream.IntStream;

/**
 * Which ranks still have data in each step of an epoch.
 *
 * @param stepsByRank number of steps for which each rank has data
 */
record StepPlan(long[] stepsByRank) {
  StepPlan {
    stepsByRank = stepsByRank.clone();
    long most = Arrays.stream(stepsByRank).max().orElse(0);
    long least = Arrays.stream(stepsByRank).min().orElse(0);
    if (least < 0 || most < 1) {
      throw new IllegalArgumentException(
          "Cannot start an epoch: expected at least one step on some rank, got %s."
              .formatted(Arrays.toString(stepsByRank)));
    }
  }

  long steps(int rank) {
    return stepsByRank[rank];
  }

  /** Steps of the epoch: the most of any rank. */
  long total() {
    return Arrays.stream(stepsByRank).max().orElse(0);
  }

  boolean isActive(int rank, long step) {
    return step < stepsByRank[rank];
  }

  /** Number of ranks with data in {@code step}. */
  int active(long step) {
    return (int) Arrays.stream(stepsByRank).filter(steps -> step < steps).count();
  }

  int lowestActive(long step) {
    return active(step, IntStream.range(0, stepsByRank.length));
  }

  int highestActive(long step) {
    return active(
        step, IntStream.range(0, stepsByRank.length).map(i -> stepsByRank.length - 1 - i));
  }

  private int active(long step, IntStream ranks) {
    return ranks.filter(rank -> isActive(rank, step)).findFirst().orElseThrow();
  }

  /** The rank whose model is the latest: the highest of those with the most steps. */
  int lastJoiner() {
    return highestActive(total() - 1);
  }
}
