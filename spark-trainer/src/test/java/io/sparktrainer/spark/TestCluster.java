package io.sparktrainer.spark;

import static org.assertj.core.api.Assertions.assertThat;

import io.sparktrainer.spark.Cluster.HostFacts;
import io.sparktrainer.strategy.plan.Machines;
import io.sparktrainer.torch.Device;
import java.util.List;
import org.junit.jupiter.api.Test;

class TestCluster {
  @Test
  void ranksOfAHostShareItsMemoryAndTheSmallestHostDecides() {
    List<HostFacts> found =
        List.of(
            new HostFacts("a", 1000),
            new HostFacts("b", 600),
            new HostFacts("a", 900),
            new HostFacts("b", 800));

    assertThat(Cluster.of(found, 4)).isEqualTo(new Machines(Device.Type.CPU, 300, 2, 4));
  }

  @Test
  void fewerRanksThanHostsUseAsManyHosts() {
    List<HostFacts> found =
        List.of(new HostFacts("a", 10), new HostFacts("b", 10), new HostFacts("c", 10));

    assertThat(Cluster.of(found, 1)).isEqualTo(new Machines(Device.Type.CPU, 10, 1, 1));
    assertThat(Cluster.of(found, 4)).isEqualTo(new Machines(Device.Type.CPU, 5, 2, 4));
  }
}
