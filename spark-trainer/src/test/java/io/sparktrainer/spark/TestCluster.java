package io.sparktrainer.spark;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.spark.Cluster.HostFacts;
import io.sparktrainer.spark.resource.DeviceRequest.Kind;
import io.sparktrainer.strategy.plan.Machines;
import io.sparktrainer.torch.Device;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;

class TestCluster {
  @Test
  void ranksOfAHostShareItsMemoryAndTheSmallestHostDecides() {
    List<HostFacts> found = List.of(cpu("a", 1000), cpu("b", 600), cpu("a", 900), cpu("b", 800));

    assertThat(Cluster.of(found, 4, Kind.CPU)).isEqualTo(new Machines(Device.Type.CPU, 300, 2, 4));
  }

  @Test
  void fewerRanksThanHostsUseAsManyHosts() {
    List<HostFacts> found = List.of(cpu("a", 10), cpu("b", 10), cpu("c", 10));

    assertThat(Cluster.of(found, 1, Kind.CPU)).isEqualTo(new Machines(Device.Type.CPU, 10, 1, 1));
    assertThat(Cluster.of(found, 4, Kind.AUTO)).isEqualTo(new Machines(Device.Type.CPU, 5, 2, 4));
  }

  @Test
  void whereEachRankHasAGpuTheFullestOneDecides() {
    List<HostFacts> found =
        List.of(
            gpus("a", Map.of("GPU-1", 80L, "GPU-2", 70L)),
            gpus("a", Map.of("GPU-1", 60L, "GPU-2", 70L)),
            gpus("b", Map.of("GPU-3", 80L)),
            gpus("b", Map.of("GPU-4", 80L)));

    assertThat(Cluster.of(found, 4, Kind.AUTO)).isEqualTo(new Machines(Device.Type.CUDA, 60, 2, 4));
    assertThat(Cluster.of(found, 4, Kind.CUDA)).isEqualTo(new Machines(Device.Type.CUDA, 60, 2, 4));
  }

  @Test
  void aHostWithTooFewGpusMeansTheProcessorOrARefusal() {
    List<HostFacts> found = List.of(gpus("a", Map.of("GPU-1", 80L)), cpu("b", 500));

    assertThat(Cluster.of(found, 2, Kind.AUTO)).isEqualTo(new Machines(Device.Type.CPU, 500, 2, 2));
    assertThatThrownBy(() -> Cluster.of(found, 2, Kind.CUDA))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage(
            "Cannot plan for GPUs: expected 1 on each host, got 0 on host b: no driver. Give --memory to plan for GPUs that are not here, or set device.type to cpu or auto.");
  }

  private static HostFacts cpu(String host, long bytes) {
    return new HostFacts(host, bytes, new TreeMap<>(), "no driver");
  }

  private static HostFacts gpus(String host, Map<String, Long> bytes) {
    return new HostFacts(host, 1000, new TreeMap<>(bytes), null);
  }
}
