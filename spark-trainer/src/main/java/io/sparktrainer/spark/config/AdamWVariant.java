package io.sparktrainer.spark.config;

import io.sparktrainer.optim.OptimizerSpec;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** {@code optimizer: {type: adamw}}. */
final class AdamWVariant implements Variant<OptimizerSpec> {
  @Override
  public String name() {
    return "adamw";
  }

  @Override
  public @Nullable OptimizerSpec read(Section section) {
    double weightDecay = OptimizerSpec.adamW().build().weightDecay();
    return AdamKeys.read(section, OptimizerSpec.adamW(), weightDecay);
  }

  @Override
  public @Nullable Map<String, @Nullable Object> write(OptimizerSpec value) {
    return value instanceof OptimizerSpec.AdamW adam
        ? AdamKeys.write(
            adam.lr(), adam.beta1(), adam.beta2(), adam.eps(), adam.weightDecay(), adam.amsgrad())
        : null;
  }
}
