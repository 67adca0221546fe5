package io.sparktrainer.strategy.fsdp;

import static org.assertj.core.api.Assertions.assertThat;

import io.sparktrainer.comm.CollectiveHandle;
import io.sparktrainer.comm.Communicator;
import io.sparktrainer.comm.NcclId;
import io.sparktrainer.comm.NcclRendezvous;
import io.sparktrainer.testing.Gate;
import io.sparktrainer.torch.CudaStream;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.util.ArrayList;
import java.util.List;
import org.bytedeco.pytorch.Tensor;

/** What gathers wait for, on stand-ins for devices; for a JVM that sees them. */
public final class GatherOrder {
  private static final int BYTES = 16;
  private static final int TIMEOUT_SECONDS = 30;

  private GatherOrder() {}

  /**
   * While a unit is computed, another one is gathered into the buffer that is not in use, and the
   * host goes on; a gather into the buffer of the unit that is computed waits for that.
   */
  public static void check() {
    try (var scope = NativeScope.open();
        Communicator group =
            NcclRendezvous.connect(NcclId.create(), 0, 1, Device.CPU, TIMEOUT_SECONDS);
        CudaStream computing = CudaStream.open(Device.CPU);
        var current = computing.makeCurrent();
        GatherStream gathers = new GatherStream(group);
        BufferPool pool = new BufferPool(Device.CPU, gathers)) {
      assertThat(gathers.isBeside()).isTrue();
      gathers.followComputing();
      BufferPool.Buffer first = pool.take(BYTES);
      BufferPool.Buffer second = pool.take(BYTES);
      pool.giveBack(second);
      try (Gate gate = Gate.on(computing)) {
        pool.giveBack(first);
        assertThat(pool.take(BYTES)).isSameAs(second);
        assertThat(pool.take(BYTES)).isSameAs(first);

        CollectiveHandle free = gather(group, gathers, second);
        free.await();
        free.awaitOnHost();
        assertThat(Tensors.toFloats(second.as(DType.FLOAT32, 4))).containsExactly(1, 2, 3, 4);

        CollectiveHandle held = gather(group, gathers, first);
        held.await();
        assertThat(held.isDone()).isFalse();
        gate.open();
        held.awaitOnHost();
        assertThat(Tensors.toFloats(first.as(DType.FLOAT32, 4))).containsExactly(1, 2, 3, 4);
      }
    }
  }

  private static CollectiveHandle gather(
      Communicator group, GatherStream gathers, BufferPool.Buffer into) {
    Tensor shard = Tensors.of(new float[] {1, 2, 3, 4}, 4);
    List<CollectiveHandle> started = new ArrayList<>();
    gathers.follow(into.unused());
    gathers.run(() -> started.add(group.allGather(into.as(DType.FLOAT32, 4), shard)));
    return started.get(0);
  }
}
