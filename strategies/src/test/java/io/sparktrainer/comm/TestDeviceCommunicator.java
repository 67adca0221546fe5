package io.sparktrainer.comm;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.ShapesOnly;
import io.sparktrainer.torch.Tensors;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Test;

class TestDeviceCommunicator {
  private final List<String> events = new ArrayList<>();

  @Test
  void tensorsGoThroughTheGroupOfTheirMemory() {
    try (var scope = NativeScope.open();
        var group = new DeviceCommunicator(recorder("host", 0), recorder("device", 0))) {
      Tensor onHost = Tensors.zeros(DType.FLOAT32, Device.CPU, 2);
      // Any tensor that is not in host memory; a GPU is not needed to tell.
      Tensor elsewhere = withoutMemory();

      group.allReduce(onHost, ReduceOp.SUM);
      group.allReduce(elsewhere, ReduceOp.SUM);
      group.reduceScatter(elsewhere, elsewhere, ReduceOp.SUM);
      group.allGather(onHost, onHost);
      group.broadcast(elsewhere, 0);
      group.barrier();
      group.requireIntact();
    }
    assertThat(events)
        .containsExactly(
            "device.requireIntact",
            "host.allReduce",
            "device.allReduce",
            "device.reduceScatter",
            "device.requireIntact",
            "host.allGather",
            "device.broadcast",
            "device.requireIntact",
            "host.barrier",
            "device.requireIntact",
            "host.requireIntact",
            "device.close",
            "host.close");
  }

  @Test
  void bothGroupsSplitCountAndEndTogether() {
    var group = new DeviceCommunicator(recorder("host", 0), recorder("device", 0));

    assertThat(group.subGroup("shard", 0, 1)).isInstanceOf(DeviceCommunicator.class);
    assertThat(group.counts().calls(CollectiveCounts.Kind.BROADCAST)).isEqualTo(2);
    assertThat(group.counts().bytes(CollectiveCounts.Kind.BROADCAST)).isEqualTo(20);
    group.abort("lost a peer");

    assertThat(events)
        .containsExactly("host.subGroup", "device.subGroup", "device.abort", "host.abort");
  }

  @Test
  void aRankAloneHasAGroupForBothMemories() {
    assertThat(DeviceCommunicator.alone(Device.CPU)).isInstanceOf(LocalCommunicator.class);
    assertThat(DeviceCommunicator.alone(Device.cuda(1))).isInstanceOf(DeviceCommunicator.class);
  }

  @Test
  void groupsOfDifferentRanksAreRefused() {
    assertThatThrownBy(() -> new DeviceCommunicator(recorder("host", 0), recorder("device", 1)))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("rank 0 of 2 on the host and rank 1 of 2 on the device");
  }

  private static Tensor withoutMemory() {
    try (var shapes = ShapesOnly.open()) {
      return Tensors.zeros(DType.FLOAT32, Device.CPU, 2);
    }
  }

  /** A group that notes what it is called for. */
  private Communicator recorder(String name, int rank) {
    return (Communicator)
        Proxy.newProxyInstance(
            Communicator.class.getClassLoader(),
            new Class<?>[] {Communicator.class},
            (proxy, method, arguments) ->
                switch (method.getName()) {
                  case "rank" -> rank;
                  case "worldSize" -> 2;
                  case "counts" ->
                      new CollectiveCounts(
                          Map.of(CollectiveCounts.Kind.BROADCAST, 1L),
                          Map.of(CollectiveCounts.Kind.BROADCAST, 10L));
                  default -> {
                    events.add(name + "." + method.getName());
                    yield method.getName().equals("subGroup") ? proxy : null;
                  }
                });
  }
}
