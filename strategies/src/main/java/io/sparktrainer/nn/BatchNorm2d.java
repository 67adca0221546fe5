package io.sparktrainer.nn;

/** Batch normalisation of images, [n, channels, h, w]. */
public final class BatchNorm2d extends BatchNorm {
  public BatchNorm2d(long channels) {
    super(channels);
  }
}
