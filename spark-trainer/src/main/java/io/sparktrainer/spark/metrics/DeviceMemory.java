package io.sparktrainer.spark.metrics;

/**
 * Memory of a rank's GPU.
 *
 * @param rank which rank
 * @param epoch number of the epoch, from 0
 * @param device the rank's name of it, such as {@code cuda:0}
 * @param peakBytes most that tensors of the rank's process have taken so far
 * @param totalBytes memory of the device
 */
public record DeviceMemory(int rank, int epoch, String device, long peakBytes, long totalBytes) {
  /** Part of the device's memory that tensors took at the peak, 0 to 1. */
  public double share() {
    return (double) peakBytes / totalBytes;
  }
}
