package io.sparktrainer.spark.config;

import io.sparktrainer.optim.OptimizerSpec;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** {@code optimizer: {type: adam}}. */
final class AdamVariant implements Variant<OptimizerSpec> {
  @Override
  public String name() {
    return "adam";
  }

  @Override
  public @Nullable OptimizerSpec read(Section section) {
    double weightDecay = OptimizerSpec.adam().build().weightDecay();
    return AdamKeys.read(section, OptimizerSpec.adam(), weightDecay);
  }

  @Override
  public @Nullable Map<String, @Nullable Object> write(OptimizerSpec value) {
    return value instanceof OptimizerSpec.Adam adam
        ? AdamKeys.write(
            adam.lr(), adam.beta1(), adam.beta2(), adam.eps(), adam.weightDecay(), adam.amsgrad())
        : null;
  }
}
