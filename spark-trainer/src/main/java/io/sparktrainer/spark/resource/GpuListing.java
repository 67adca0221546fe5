package io.sparktrainer.spark.resource;

import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The GPUs that a process can use, or why it can use none.
 *
 * @param gpus by CUDA's number
 * @param problem what is missing, as a sentence; null where there are GPUs
 */
public record GpuListing(List<Gpu> gpus, @Nullable String problem) {
  public GpuListing {
    gpus = List.copyOf(gpus);
    if (gpus.isEmpty() == (problem == null)) {
      throw new IllegalArgumentException(
          "Cannot list GPUs: expected some, or the reason why there are none, got %d and %s."
              .formatted(gpus.size(), problem));
    }
  }

  /** These GPUs, at least one. */
  public static GpuListing of(List<Gpu> gpus) {
    return new GpuListing(gpus, null);
  }

  /** None, for this reason. */
  public static GpuListing none(String problem) {
    return new GpuListing(List.of(), problem);
  }
}
