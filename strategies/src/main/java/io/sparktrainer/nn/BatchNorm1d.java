package io.sparktrainer.nn;

/**
 * Batch normalisation of rows of numbers, [n, channels], or of sequences, [n, channels, length].
 */
public final class BatchNorm1d extends BatchNorm {
  public BatchNorm1d(long channels) {
    super(channels);
  }
}
