package io.sparktrainer.engine;

import java.util.Iterator;

/** This rank's share of a data set, in batches. */
public interface BatchSource {
  /** Batches per epoch; the same on every rank for training data. */
  int batchesPerEpoch();

  /**
   * The batches of one epoch, in the epoch's order. Tensors of a batch are created in the caller's
   * scope and are valid until the next call of {@code next()}.
   *
   * @param epoch number of the epoch, from 0
   */
  Iterator<TensorBatch> epoch(int epoch);

  /** Whether batches have weights; the same on every rank, also on one without batches. */
  default boolean isWeighted() {
    return false;
  }

  /**
   * About how many rows a batch has; the same on every rank. Gradients of weighted rows are divided
   * by it until all weights of a step are known.
   */
  default int batchRows() {
    return 1;
  }
}
