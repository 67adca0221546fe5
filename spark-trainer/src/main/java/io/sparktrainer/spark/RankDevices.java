package io.sparktrainer.spark;

import io.sparktrainer.spark.barrier.RankResources;
import io.sparktrainer.spark.config.DeviceConfig;
import io.sparktrainer.spark.resource.DeviceRequest;
import io.sparktrainer.spark.resource.Gpu;
import io.sparktrainer.spark.resource.RankGpus;
import io.sparktrainer.strategy.StrategySpec;
import io.sparktrainer.torch.Device;
import java.util.List;

/** Between a configuration's devices and those that the ranks find. */
final class RankDevices {
  private RankDevices() {}

  /** What each rank is asked to compute on. */
  static DeviceRequest request(DeviceConfig device) {
    DeviceRequest.Kind kind =
        switch (device.type()) {
          case CPU -> DeviceRequest.Kind.CPU;
          case CUDA -> DeviceRequest.Kind.CUDA;
          case AUTO -> DeviceRequest.Kind.AUTO;
        };
    StrategySpec strategy = device.strategy();
    if (strategy instanceof StrategySpec.None none) {
      return new DeviceRequest(kind, List.of(none.deviceId()));
    }
    if (strategy instanceof StrategySpec.Dp dp) {
      List<Integer> ids = dp.deviceIds();
      return new DeviceRequest(kind, ids.isEmpty() ? RankGpus.first(dp.replicas()) : ids);
    }
    return new DeviceRequest(kind, null);
  }

  static RankResources resources(DeviceConfig device) {
    return new RankResources(device.resources().gpusPerRank(), device.resources().cpusPerRank());
  }

  /** Where the rank's model computes. */
  static Device device(List<Gpu> gpus) {
    return gpus.isEmpty() ? Device.CPU : gpus.get(0).device();
  }

  /**
   * The strategy with the numbers that CUDA gives the devices of dp in this rank's process, instead
   * of places among the rank's GPUs.
   *
   * @param gpus the rank's GPUs; none for the processor
   */
  static StrategySpec onDevices(StrategySpec strategy, List<Gpu> gpus) {
    if (strategy instanceof StrategySpec.None) {
      // Its place among the rank's GPUs has been found, or there are none.
      return new StrategySpec.None(0);
    }
    if (!(strategy instanceof StrategySpec.Dp dp)) {
      return strategy;
    }
    return device(gpus).isCuda()
        ? StrategySpec.Dp.onDevices(gpus.stream().map(Gpu::index).toList())
        : StrategySpec.Dp.onCpu(dp.replicas());
  }
}
