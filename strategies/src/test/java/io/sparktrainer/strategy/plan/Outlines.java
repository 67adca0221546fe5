package io.sparktrainer.strategy.plan;

import io.sparktrainer.torch.DType;
import java.util.ArrayList;
import java.util.List;

/** Small outlines for tests. */
final class Outlines {
  private Outlines() {}

  /** One trainable float32 parameter per unit. */
  static ModelOutline units(long... numels) {
    List<UnitOutline> units = new ArrayList<>();
    for (long numel : numels) {
      units.add(new UnitOutline("u" + units.size(), List.of(parameter(numel))));
    }
    return new ModelOutline(units, 0);
  }

  static ParameterOutline parameter(long numel) {
    return new ParameterOutline("p" + numel, DType.FLOAT32, List.of(numel), true);
  }

  static ParameterOutline frozen(long numel) {
    return new ParameterOutline("f" + numel, DType.FLOAT32, List.of(numel), false);
  }
}
