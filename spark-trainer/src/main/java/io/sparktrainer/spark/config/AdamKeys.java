package io.sparktrainer.spark.config;

import io.sparktrainer.optim.AdamBuilder;
import io.sparktrainer.optim.OptimizerSpec;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** The keys that {@code adam} and {@code adamw} share. */
final class AdamKeys {
  private AdamKeys() {}

  /**
   * @param builder with the optimizer's defaults
   * @param weightDecay the optimizer's default
   */
  static <S extends OptimizerSpec> @Nullable S read(
      Section section, AdamBuilder<S> builder, double weightDecay) {
    builder
        .lr(section.number("lr", NumberRange.NOT_NEGATIVE, 1e-3))
        .beta1(section.number("beta1", NumberRange.FRACTION, 0.9))
        .beta2(section.number("beta2", NumberRange.FRACTION, 0.999))
        .eps(section.number("eps", NumberRange.NOT_NEGATIVE, 1e-8))
        .weightDecay(section.number("weight_decay", NumberRange.NOT_NEGATIVE, weightDecay))
        .amsgrad(section.flag("amsgrad", false));
    return section.build(builder::build);
  }

  static Map<String, @Nullable Object> write(
      double lr, double beta1, double beta2, double eps, double weightDecay, boolean amsgrad) {
    Map<String, @Nullable Object> keys = new LinkedHashMap<>();
    keys.put("lr", lr);
    keys.put("beta1", beta1);
    keys.put("beta2", beta2);
    keys.put("eps", eps);
    keys.put("weight_decay", weightDecay);
    keys.put("amsgrad", amsgrad);
    return keys;
  }
}
