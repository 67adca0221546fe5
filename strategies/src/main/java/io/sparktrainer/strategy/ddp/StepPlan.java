package io.sparktrainer.strategy.ddp;

import java.util.Collections;
import java.util.List;

/**
 * Which ranks still have data in each step of an epoch.
 *
 * @param stepsByRank number of steps for which each rank has data
 */
record StepPlan(List<Long> stepsByRank) {
  StepPlan {
    stepsByRank = List.copyOf(stepsByRank);
    if (Collections.min(stepsByRank) < 0 || Collections.max(stepsByRank) < 1) {
      throw new IllegalArgumentException(
          "Cannot start an epoch: expected at least one step on some rank, got %s."
              .formatted(stepsByRank));
    }
  }

  long steps(int rank) {
    return stepsByRank.get(rank);
  }

  /** Steps of the epoch: the most of any rank. */
  long total() {
    return Collections.max(stepsByRank);
  }

  boolean isActive(int rank, long step) {
    return step < stepsByRank.get(rank);
  }

  /** Number of ranks with data in {@code step}. */
  int active(long step) {
    return (int) stepsByRank.stream().filter(steps -> step < steps).count();
  }

  int lowestActive(long step) {
    int rank = 0;
    while (!isActive(rank, step)) {
      rank++;
    }
    return rank;
  }

  int highestActive(long step) {
    int rank = stepsByRank.size() - 1;
    while (!isActive(rank, step)) {
      rank--;
    }
    return rank;
  }

  /** The rank whose model is the latest: the highest of those with the most steps. */
  int lastJoiner() {
    return highestActive(total() - 1);
  }
}
