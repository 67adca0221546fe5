package io.sparktrainer.data;

import java.io.Serializable;

/**
 * Which rows of a source partition belong to the validation set by their place.
 *
 * <p>A partition is cut into runs of 1/fraction rows, and one row of each run is chosen by the
 * seed: the share is exact to within one row per partition, without counting rows first.
 *
 * @param fraction of rows; 0 for none, 1 for all
 * @param seed of the choice
 */
record SplitRule(double fraction, long seed) implements Serializable {
  static final SplitRule TRAINING_ONLY = new SplitRule(0, 0);
  static final SplitRule VALIDATION_ONLY = new SplitRule(1, 0);

  boolean isValidation(int partition, long row) {
    if (fraction <= 0 || fraction >= 1) {
      return fraction >= 1;
    }
    // The run after this estimate may own the row: rounding of the division can be off by one.
    long run = (long) (row * fraction);
    while (firstRow(run + 1) <= row) {
      run++;
    }
    while (firstRow(run) > row) {
      run--;
    }
    long first = firstRow(run);
    long size = firstRow(run + 1) - first;
    return row == first + Math.floorMod(Mix.mix(seed, partition, run), size);
  }

  private long firstRow(long run) {
    return (long) Math.ceil(run / fraction);
  }
}
