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
}
