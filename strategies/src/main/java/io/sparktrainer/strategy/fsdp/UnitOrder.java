package io.sparktrainer.strategy.fsdp;

import io.sparktrainer.comm.Communicator;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.bytedeco.pytorch.Tensor;

/**
 * The order in which the units run forward: that of registration at first, then that of rank 0's
 * first forward pass. The same on all ranks, so that gathers and reductions are too.
 */
final class UnitOrder {
  private final List<ShardedUnit> units;
  private List<ShardedUnit> forward;
  private List<ShardedUnit> backward;
  private List<ShardedUnit> reduction;
  private boolean agreed;

  /** Starts with the order of {@code units}, the model first. */
  UnitOrder(List<ShardedUnit> units) {
    this.units = List.copyOf(units);
    this.forward = this.units;
    this.backward = backwardOf(forward);
    this.reduction = reversed(forward);
  }

  /** Order of gathers in forward: a unit before those inside it. */
  List<ShardedUnit> forward() {
    return forward;
  }

  /** Order of gathers in backward: a unit before those inside it, else the reverse of forward. */
  List<ShardedUnit> backward() {
    return backward;
  }

  /** Order of reductions: a unit after those inside it, the model last. */
  List<ShardedUnit> reduction() {
    return reduction;
  }

  /** Takes over, once, the order that rank 0 observed; all ranks call it together. */
  void agree(List<ShardedUnit> observed, Communicator world, Device device) {
    if (agreed) {
      return;
    }
    agreed = true;
    List<ShardedUnit> mine = new ArrayList<>(observed);
    units.stream().filter(unit -> !mine.contains(unit)).forEach(mine::add);
    if (world.worldSize() > 1) {
      try (var scope = NativeScope.open()) {
        long[] indices = mine.stream().mapToLong(units::indexOf).toArray();
        Tensor sent =
            Tensors.of(indices, indices.length).to(device.toNative(), DType.INT64.scalarType());
        world.broadcast(sent, 0).awaitOnHost();
        forward = Arrays.stream(Tensors.toLongs(sent)).mapToObj(i -> units.get((int) i)).toList();
      }
    } else {
      forward = List.copyOf(mine);
    }
    backward = backwardOf(forward);
    reduction = reversed(forward);
  }

  private static List<ShardedUnit> reversed(List<ShardedUnit> order) {
    List<ShardedUnit> copy = new ArrayList<>(order);
    Collections.reverse(copy);
    return List.copyOf(copy);
  }

  private static List<ShardedUnit> backwardOf(List<ShardedUnit> order) {
    List<ShardedUnit> ends = new ArrayList<>();
    List<ShardedUnit> open = new ArrayList<>();
    for (ShardedUnit unit : order) {
      while (!open.isEmpty() && !contains(last(open), unit)) {
        ends.add(open.remove(open.size() - 1));
      }
      open.add(unit);
    }
    Collections.reverse(open);
    ends.addAll(open);
    return reversed(ends);
  }

  private static ShardedUnit last(List<ShardedUnit> list) {
    return list.get(list.size() - 1);
  }

  private static boolean contains(ShardedUnit outer, ShardedUnit inner) {
    return outer.isRoot() || inner.plan().name().startsWith(outer.plan().name() + ".");
  }
}
