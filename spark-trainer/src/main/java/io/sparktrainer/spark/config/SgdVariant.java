package io.sparktrainer.spark.config;

import io.sparktrainer.optim.OptimizerSpec;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** {@code optimizer: {type: sgd}}. */
final class SgdVariant implements Variant<OptimizerSpec> {
  @Override
  public String name() {
    return "sgd";
  }

  @Override
  public @Nullable OptimizerSpec read(Section section) {
    OptimizerSpec.Sgd defaults = OptimizerSpec.sgd().build();
    double lr = section.number("lr", NumberRange.NOT_NEGATIVE, defaults.lr());
    double momentum = section.number("momentum", NumberRange.NOT_NEGATIVE, defaults.momentum());
    double dampening = section.number("dampening", NumberRange.ANY, defaults.dampening());
    boolean nesterov = section.flag("nesterov", defaults.nesterov());
    double decay = section.number("weight_decay", NumberRange.NOT_NEGATIVE, defaults.weightDecay());
    return section.build(() -> new OptimizerSpec.Sgd(lr, momentum, dampening, nesterov, decay));
  }

  @Override
  public @Nullable Map<String, @Nullable Object> write(OptimizerSpec value) {
    if (!(value instanceof OptimizerSpec.Sgd sgd)) {
      return null;
    }
    Map<String, @Nullable Object> keys = new LinkedHashMap<>();
    keys.put("lr", sgd.lr());
    keys.put("momentum", sgd.momentum());
    keys.put("dampening", sgd.dampening());
    keys.put("nesterov", sgd.nesterov());
    keys.put("weight_decay", sgd.weightDecay());
    return keys;
  }
}
