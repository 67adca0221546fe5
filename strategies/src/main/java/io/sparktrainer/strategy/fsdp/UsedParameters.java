package io.sparktrainer.strategy.fsdp;

import io.sparktrainer.comm.CollectiveHandle;
import io.sparktrainer.comm.Communicator;
import io.sparktrainer.comm.ReduceOp;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.util.List;
import java.util.stream.IntStream;
import org.bytedeco.pytorch.Tensor;

/**
 * Agrees, once per step, which parameters some rank used. The others keep no gradient, so that the
 * optimizer leaves them and their momentum alone, as in training with one process.
 */
final class UsedParameters {
  private record Member(FlatGradient gradient, int index) {}

  private final List<Member> members;
  private final Communicator world;
  private final Device device;

  UsedParameters(List<ShardedUnit> units, Communicator world, Device device) {
    this.world = world;
    this.device = device;
    this.members =
        units.stream()
            .flatMap(unit -> unit.flats().stream())
            .flatMap(
                flat ->
                    IntStream.range(0, flat.names().size())
                        .mapToObj(i -> new Member(flat.gradient(), i)))
            .toList();
  }

  /**
   * Hands the gradients of used parameters to the optimizer, after {@code reductions}; all ranks
   * call it together.
   *
   * @param reductions waits until all gradients are reduced, while the agreement is under way
   */
  void publish(Runnable reductions) {
    try (var scope = NativeScope.open()) {
      long[] counts = new long[members.size()];
      for (int i = 0; i < counts.length; i++) {
        Member member = members.get(i);
        counts[i] = member.gradient.isUsed(member.index) ? 1 : 0;
      }
      Tensor sum = onDevice(counts);
      CollectiveHandle agreement =
          world.worldSize() == 1 ? NoCollective.INSTANCE : world.allReduce(sum, ReduceOp.SUM);
      reductions.run();
      agreement.awaitOnHost();
      long[] everywhere = Tensors.toLongs(sum);
      for (int i = 0; i < counts.length; i++) {
        if (everywhere[i] > 0) {
          members.get(i).gradient.publish(members.get(i).index);
        }
      }
    }
  }

  private Tensor onDevice(long[] counts) {
    Tensor values = Tensors.of(counts, counts.length);
    return device.isCuda() ? values.to(device.toNative(), DType.INT64.scalarType()) : values;
  }
}
