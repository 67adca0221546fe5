package io.sparktrainer.spark.config;

import java.io.Serializable;
import org.jspecify.annotations.Nullable;

/**
 * Section {@code device.resources}: what the training stage asks of Spark for each rank, where that
 * differs from what other stages of the application ask for.
 *
 * @param gpusPerRank GPUs of a rank; null for what {@code spark.task.resource.gpu.amount} says
 * @param cpusPerRank cores of a rank; null for the whole executor where each rank gets its own,
 *     else for what {@code spark.task.cpus} says
 */
public record DeviceResources(@Nullable Integer gpusPerRank, @Nullable Integer cpusPerRank)
    implements Serializable {
  public DeviceResources {
    requirePositive("gpus_per_rank", gpusPerRank);
    requirePositive("cpus_per_rank", cpusPerRank);
  }

  /** What the application's own options say. */
  public static DeviceResources defaults() {
    return new DeviceResources(null, null);
  }

  private static void requirePositive(String key, @Nullable Integer count) {
    if (count != null && count < 1) {
      throw new IllegalArgumentException(
          "Cannot use %s %d: expected at least 1.".formatted(key, count));
    }
  }
}
