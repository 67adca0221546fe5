package io.sparktrainer.data;

import java.io.Serializable;

/**
 * Which rows of a source partition belong to the validation set by their place.
 *
 * @param fraction of rows; 0 for none, 1 for all
 * @param seed of the choice
 */
record SplitRule(double fraction, long seed) implements Serializable {
  static final SplitRule TRAINING_ONLY = new SplitRule(0, 0);
  static final SplitRule VALIDATION_ONLY = new SplitRule(1, 0);

  boolean isValidation(int partition, long row) {
    return fraction >= 1 || (fraction > 0 && Mix.unit(Mix.mix(seed, partition, row)) < fraction);
  }
}
