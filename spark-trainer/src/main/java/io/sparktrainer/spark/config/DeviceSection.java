package io.sparktrainer.spark.config;

import io.sparktrainer.strategy.StrategySpec;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Reads and writes {@code device}. */
final class DeviceSection {
  private static final Variants<StrategySpec> STRATEGIES =
      new Variants<>(
          "strategy", List.of(new NoneVariant(), new DdpVariant()), "dp", "fsdp", "auto");

  private DeviceSection() {}

  static DeviceConfig read(Section section) {
    DeviceType type = DeviceType.AUTO;
    if ("cuda".equals(section.text("type"))) {
      section.problem("type", "this version does not have 'cuda'. Allowed: cpu, auto.");
    } else {
      type = section.oneOf("type", DeviceType.class, DeviceType.AUTO);
    }
    Section parallel = section.section("parallel");
    StrategySpec strategy = STRATEGIES.read(parallel, "none");
    int timeoutSeconds =
        parallel.integer("timeout_seconds", 1, DeviceConfig.DEFAULT_TIMEOUT_SECONDS);
    parallel.notInThisVersion("device_ids");
    parallel.notInThisVersion("max_restarts", "0");
    parallel.notInThisVersion("fsdp");
    parallel.notInThisVersion("nccl");
    parallel.finish();
    section.notInThisVersion("mixed_precision", "none");
    section.notInThisVersion("activation_checkpointing", "none");
    section.finish();
    return new DeviceConfig(
        type, strategy == null ? new StrategySpec.None(0) : strategy, timeoutSeconds);
  }

  static Map<String, @Nullable Object> write(DeviceConfig device) {
    Map<String, @Nullable Object> parallel = STRATEGIES.write(device.strategy());
    parallel.put("timeout_seconds", device.timeoutSeconds());
    Map<String, @Nullable Object> keys = new LinkedHashMap<>();
    keys.put("type", Names.of(device.type()));
    keys.put("parallel", parallel);
    return keys;
  }
}
