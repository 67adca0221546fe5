package io.sparktrainer.spark;

import io.sparktrainer.spark.metrics.DeviceMemory;
import io.sparktrainer.spark.resource.Gpu;
import io.sparktrainer.torch.CudaDevice;
import io.sparktrainer.torch.CudaDevices;
import io.sparktrainer.torch.CudaTorch;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Reads how much memory of a rank's GPUs is in use, and keeps the highest figures. */
final class DeviceGauge {
  private final int rank;
  private final List<Gpu> gpus;
  private final Map<Integer, Long> peaks = new HashMap<>();
  private final List<DeviceMemory> epochs = new ArrayList<>();

  /**
   * @param gpus the rank's; none for the processor, and then there is nothing to read
   */
  DeviceGauge(int rank, List<Gpu> gpus) {
    this.rank = rank;
    this.gpus = gpus;
  }

  /** Reads. */
  void read() {
    for (Gpu gpu : gpus) {
      peaks.merge(gpu.index(), used(gpu), Math::max);
    }
  }

  private static long used(Gpu gpu) {
    if (gpu.device().isCuda()) {
      return CudaTorch.peakBytes(gpu.device());
    }
    // Of what stands in for a GPU libtorch keeps no figures.
    CudaDevice now = CudaDevices.get(gpu.index());
    return now.totalBytes() - now.freeBytes();
  }

  /**
   * Reads at the end of an epoch.
   *
   * @return the figures of each GPU
   */
  List<DeviceMemory> readEpoch(int epoch) {
    read();
    List<DeviceMemory> figures =
        gpus.stream()
            .map(
                gpu ->
                    new DeviceMemory(
                        rank,
                        epoch,
                        gpu.name(),
                        peaks.getOrDefault(gpu.index(), 0L),
                        gpu.totalBytes()))
            .toList();
    epochs.addAll(figures);
    return figures;
  }

  /** The figures of all epochs so far. */
  List<DeviceMemory> epochs() {
    return List.copyOf(epochs);
  }
}
