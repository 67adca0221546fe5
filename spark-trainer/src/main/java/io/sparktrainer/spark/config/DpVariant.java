package io.sparktrainer.spark.config;

import io.sparktrainer.strategy.StrategySpec;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** {@code strategy: dp}. */
final class DpVariant implements Variant<StrategySpec> {
  @Override
  public String name() {
    return "dp";
  }

  @Override
  public @Nullable StrategySpec read(Section section) {
    if (section.integer("workers", 1, 1) != 1) {
      section.problem(
          "workers",
          "expected 1 with strategy dp, whose replicas are threads of one rank. Set replicas, or use strategy ddp for several processes.");
    }
    List<Integer> devices = section.integers("device_ids", 0);
    Long replicas = section.integer("replicas", 1);
    if (replicas == null && devices.isEmpty()) {
      section.missing("replicas", "replicas: k for k replicas on the CPU, or device_ids");
      return null;
    }
    int count = replicas == null ? devices.size() : Math.toIntExact(replicas);
    return section.build(() -> new StrategySpec.Dp(devices, count));
  }

  @Override
  public @Nullable Map<String, @Nullable Object> write(StrategySpec value) {
    if (!(value instanceof StrategySpec.Dp dp)) {
      return null;
    }
    Map<String, @Nullable Object> keys = new LinkedHashMap<>();
    keys.put("replicas", dp.replicas());
    keys.put("device_ids", dp.deviceIds());
    return keys;
  }
}
