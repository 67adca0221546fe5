package io.sparktrainer.strategy.fsdp;

import io.sparktrainer.nn.BlockInterceptor.Forward;
import io.sparktrainer.torch.Gradients;
import io.sparktrainer.torch.NativeScope;
import java.util.List;
import org.bytedeco.pytorch.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * Finds whose parameter a forward pass used while its unit was not gathered, once such a pass has
 * failed: by running it again on stand-ins, zeros in the parameters' shapes, and taking away those
 * of more and more units outside of their own calls. This rank does it alone, without a collective,
 * and the strategy is of no use afterwards.
 */
final class MisplacedUse {
  private final List<ShardedUnit> units;
  private List<ShardedUnit> hidden = List.of();
  private @Nullable ShardedUnit user;

  MisplacedUse(List<ShardedUnit> units) {
    this.units = units;
  }

  /**
   * What to tell the user, or null if the pass fails with all parameters there, too.
   *
   * @param forward the pass; every unit's call has to go through {@link #call}
   */
  @Nullable String explain(Runnable forward) {
    List<ShardedUnit> suspects = units.stream().filter(unit -> !unit.isRoot()).toList();
    if (fails(List.of(), forward) || !fails(suspects, forward)) {
      return null;
    }
    while (suspects.size() > 1) {
      List<ShardedUnit> half = suspects.subList(0, suspects.size() / 2);
      suspects = fails(half, forward) ? half : suspects.subList(half.size(), suspects.size());
    }
    if (!fails(suspects, forward) || user == null) {
      return null;
    }
    ShardedUnit owner = suspects.get(0);
    return "Cannot run %s of fsdp: it uses a parameter of %s (%s), which is there only while that unit runs. Register the parameter with tie() in the block that uses it, so that the unit around both owns it, or choose other units."
        .formatted(user, owner, String.join(", ", owner.plan().parameters().keySet()));
  }

  private boolean fails(List<ShardedUnit> without, Runnable forward) {
    hidden = without;
    user = null;
    units.forEach(unit -> unit.showStandIns(!hidden.contains(unit)));
    try (var scope = NativeScope.open();
        var off = Gradients.off()) {
      forward.run();
      return false;
    } catch (RuntimeException e) {
      return true;
    }
  }

  /** Runs a unit's block in the pass. */
  Tensor call(ShardedUnit unit, Tensor[] inputs, Forward next) {
    unit.showStandIns(true);
    try {
      Tensor output = next.apply(inputs);
      unit.showStandIns(!hidden.contains(unit));
      return output;
    } catch (RuntimeException e) {
      user = user == null ? unit : user;
      throw e;
    }
  }
}
