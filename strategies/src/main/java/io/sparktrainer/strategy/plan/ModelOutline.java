package io.sparktrainer.strategy.plan;

import io.sparktrainer.nn.Block;
import io.sparktrainer.strategy.WrapPolicy;
import io.sparktrainer.strategy.fsdp.UnitPlan;
import io.sparktrainer.strategy.fsdp.UnitPlanner;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.ShapesOnly;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;

/**
 * A model without its values: what planning needs to know, for a model of any size.
 *
 * @param units every parameter once, in the units that {@code fsdp} would make; the rest of the
 *     model first, then inner units in registration order
 * @param bufferBytes size of all buffers
 */
public record ModelOutline(List<UnitOutline> units, long bufferBytes) {
  public ModelOutline {
    units = List.copyOf(units);
  }

  /**
   * Builds a model without memory for its tensors and describes it.
   *
   * @param factory makes the model, on the calling thread
   * @param policy which blocks are units
   * @throws IllegalArgumentException if the policy matches no block
   */
  public static ModelOutline of(Supplier<? extends Block> factory, WrapPolicy policy) {
    try (var scope = NativeScope.open();
        var shapes = ShapesOnly.open();
        Block model = factory.get()) {
      return of(model, policy);
    }
  }

  /**
   * Describes a model that exists.
   *
   * @throws IllegalArgumentException if the policy matches no block
   */
  public static ModelOutline of(Block model, WrapPolicy policy) {
    List<UnitOutline> units = new ArrayList<>();
    for (UnitPlan unit : UnitPlanner.plan(model, policy)) {
      if (!unit.parameters().isEmpty()) {
        units.add(
            new UnitOutline(
                unit.name(),
                unit.parameters().entrySet().stream()
                    .map(entry -> ParameterOutline.of(entry.getKey(), entry.getValue()))
                    .toList()));
      }
    }
    long bufferBytes =
        model.buffers().values().stream().mapToLong(t -> t.numel() * DType.of(t).bytes()).sum();
    return new ModelOutline(units, bufferBytes);
  }

  /** Every parameter once. */
  public List<ParameterOutline> parameters() {
    return units.stream().flatMap(unit -> unit.parameters().stream()).toList();
  }

  /** Number of parameters, frozen ones included. */
  public long numel() {
    return units.stream().mapToLong(UnitOutline::numel).sum();
  }

  /** Size of all parameters, each in its own type. */
  public long parameterBytes() {
    return parameters().stream().mapToLong(ParameterOutline::bytes).sum();
  }

  /** Size of the parameters that get a gradient, which is that of the gradients too. */
  public long trainableBytes() {
    return parameters().stream()
        .filter(ParameterOutline::trainable)
        .mapToLong(ParameterOutline::bytes)
        .sum();
  }
}
