package io.sparktrainer.spark.config;

import io.sparktrainer.optim.OptimizerSpec;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Reads and writes {@code optimizer}. */
final class OptimizerSection {
  private static final Variants<OptimizerSpec> OPTIMIZERS =
      new Variants<>("type", List.of(new SgdVariant(), new AdamVariant(), new AdamWVariant()));

  private OptimizerSection() {}

  static @Nullable OptimizerSpec read(Section section) {
    OptimizerSpec optimizer = OPTIMIZERS.read(section, "adamw");
    section.finish();
    return optimizer;
  }

  static Map<String, @Nullable Object> write(OptimizerSpec optimizer) {
    return OPTIMIZERS.write(optimizer);
  }
}
