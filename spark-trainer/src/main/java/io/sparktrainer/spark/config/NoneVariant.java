package io.sparktrainer.spark.config;

import io.sparktrainer.strategy.StrategySpec;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** {@code strategy: none}. */
final class NoneVariant implements Variant<StrategySpec> {
  @Override
  public String name() {
    return "none";
  }

  @Override
  public StrategySpec read(Section section) {
    int deviceId = section.integer("device_id", 0, 0);
    if (section.integer("workers", 1, 1) != 1) {
      section.problem(
          "workers",
          "expected 1 with strategy none, which is one rank. Use strategy ddp for more.");
    }
    return new StrategySpec.None(deviceId);
  }

  @Override
  public @Nullable Map<String, @Nullable Object> write(StrategySpec value) {
    if (!(value instanceof StrategySpec.None none)) {
      return null;
    }
    Map<String, @Nullable Object> keys = new LinkedHashMap<>();
    keys.put("device_id", none.deviceId());
    return keys;
  }
}
