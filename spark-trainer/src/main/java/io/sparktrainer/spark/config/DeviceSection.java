package io.sparktrainer.spark.config;

import io.sparktrainer.spark.config.DeviceConfig.CheckpointedActivations;
import io.sparktrainer.strategy.MixedPrecision;
import io.sparktrainer.strategy.Precision;
import io.sparktrainer.strategy.StrategySpec;
import io.sparktrainer.torch.DType;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Reads and writes {@code device}. */
final class DeviceSection {
  private static final Variants<StrategySpec> STRATEGIES =
      new Variants<>(
          "strategy",
          List.of(
              new NoneVariant(),
              new DpVariant(),
              new DdpVariant(),
              new FsdpVariant(),
              new AutoVariant()));

  /** Keys of {@code device.parallel} that belong to some strategies only. */
  private static final List<String> STRATEGY_KEYS =
      List.of("device_id", "device_ids", "replicas", "workers", "ddp", "fsdp");

  private DeviceSection() {}

  static DeviceConfig read(Section section) {
    DeviceType type = DeviceType.AUTO;
    if ("cuda".equals(section.text("type"))) {
      section.problem("type", "this version does not have 'cuda'. Allowed: cpu, auto.");
    } else {
      type = section.oneOf("type", DeviceType.class, DeviceType.AUTO);
    }
    Section parallel = section.section("parallel");
    StrategySpec read = STRATEGIES.read(parallel, "none");
    int timeoutSeconds =
        parallel.integer("timeout_seconds", 1, DeviceConfig.DEFAULT_TIMEOUT_SECONDS);
    for (String key : STRATEGY_KEYS) {
      parallel.withoutEffect(key, "with strategy " + parallel.text("strategy", "none"));
    }
    parallel.notInThisVersion("max_restarts", "0");
    parallel.notInThisVersion("nccl");
    parallel.finish();
    StrategySpec strategy = read == null ? new StrategySpec.None(0) : read;
    Section precision = section.section("mixed_precision", "type");
    if (!precision.has("type") && section.has("mixed_precision")) {
      strategy = withTypes(strategy, precision);
    }
    DeviceConfig config =
        new DeviceConfig(
            type,
            strategy,
            timeoutSeconds,
            precision.oneOf("type", Precision.class, Precision.NONE),
            section.oneOf(
                "activation_checkpointing",
                CheckpointedActivations.class,
                CheckpointedActivations.NONE));
    precision.finish();
    section.finish();
    return config;
  }

  /** The types of each purpose, which fsdp alone can tell apart. */
  private static StrategySpec withTypes(StrategySpec strategy, Section section) {
    DType parameters = section.oneOf("param_dtype", DType.class);
    DType reductions = section.oneOf("reduce_dtype", DType.class);
    DType buffers = section.oneOf("buffer_dtype", DType.class);
    if (!(strategy instanceof StrategySpec.Fsdp fsdp)) {
      section.problem(
          "param_dtype", "expected strategy fsdp with types one by one. Use none, bf16 or fp16.");
      return strategy;
    }
    MixedPrecision types = section.build(() -> new MixedPrecision(parameters, reductions, buffers));
    return types == null
        ? strategy
        : new StrategySpec.Fsdp(fsdp.workers(), fsdp.options().withMixedPrecision(types));
  }

  static Map<String, @Nullable Object> write(DeviceConfig device) {
    Map<String, @Nullable Object> parallel = STRATEGIES.write(device.strategy());
    parallel.put("timeout_seconds", device.timeoutSeconds());
    Map<String, @Nullable Object> keys = new LinkedHashMap<>();
    keys.put("type", Names.of(device.type()));
    keys.put("parallel", parallel);
    keys.put("mixed_precision", precision(device));
    keys.put("activation_checkpointing", Names.of(device.activationCheckpointing()));
    return keys;
  }

  private static Object precision(DeviceConfig device) {
    if (device.strategy() instanceof StrategySpec.Fsdp fsdp
        && !fsdp.options().mixedPrecision().equals(MixedPrecision.NONE)) {
      MixedPrecision types = fsdp.options().mixedPrecision();
      Map<String, @Nullable Object> keys = new LinkedHashMap<>();
      keys.put("param_dtype", name(types.paramDtype()));
      keys.put("reduce_dtype", name(types.reduceDtype()));
      keys.put("buffer_dtype", name(types.bufferDtype()));
      return keys;
    }
    return Names.of(device.precision());
  }

  private static @Nullable String name(@Nullable DType dtype) {
    return dtype == null ? null : Names.of(dtype);
  }
}
