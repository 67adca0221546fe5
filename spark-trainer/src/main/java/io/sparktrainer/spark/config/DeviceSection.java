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
    DeviceType type = section.oneOf("type", DeviceType.class, DeviceType.AUTO);
    Section parallel = section.section("parallel");
    StrategySpec read = STRATEGIES.read(parallel, "none");
    int timeoutSeconds =
        parallel.integer("timeout_seconds", 1, DeviceConfig.DEFAULT_TIMEOUT_SECONDS);
    for (String key : STRATEGY_KEYS) {
      parallel.withoutEffect(key, "with strategy " + parallel.text("strategy", "none"));
    }
    parallel.notInThisVersion("max_restarts", "0");
    NcclSettings nccl = nccl(parallel, read, type);
    if (read != null && type == DeviceType.CPU) {
      refuseGpus(parallel, read);
    }
    parallel.finish();
    StrategySpec strategy = read == null ? new StrategySpec.None(0) : read;
    DeviceResources resources = resources(section.section("resources"), strategy, type);
    Section precision = section.section("mixed_precision", "type");
    if (!precision.has("type") && section.has("mixed_precision")) {
      strategy = withTypes(strategy, precision);
    }
    DeviceConfig config =
        DeviceConfig.builder()
            .type(type)
            .strategy(strategy)
            .timeoutSeconds(timeoutSeconds)
            .precision(precision.oneOf("type", Precision.class, Precision.NONE))
            .activationCheckpointing(
                section.oneOf(
                    "activation_checkpointing",
                    CheckpointedActivations.class,
                    CheckpointedActivations.NONE))
            .resources(resources)
            .nccl(nccl)
            .build();
    precision.finish();
    section.finish();
    return config;
  }

  private static NcclSettings nccl(
      Section parallel, @Nullable StrategySpec strategy, DeviceType type) {
    Map<String, String> variables = parallel.textMap("nccl");
    NcclSettings settings = parallel.section("nccl").build(() -> new NcclSettings(variables));
    if (!variables.isEmpty()) {
      if (type == DeviceType.CPU) {
        parallel.problem("nccl", "has no effect with device.type cpu. Take it out.");
      } else if (strategy != null && !DeviceConfig.exchanges(strategy)) {
        parallel.problem(
            "nccl", "has no effect with strategy " + strategy.name() + ". Take it out.");
      }
    }
    return settings == null ? NcclSettings.none() : settings;
  }

  /** Indices of GPUs, where there are to be none. */
  private static void refuseGpus(Section parallel, StrategySpec strategy) {
    if (strategy instanceof StrategySpec.None none && none.deviceId() > 0) {
      parallel.problem("device_id", "has no effect with device.type cpu. Take it out.");
    }
    if (strategy instanceof StrategySpec.Dp dp && !dp.deviceIds().isEmpty()) {
      parallel.problem("device_ids", "has no effect with device.type cpu. Set replicas instead.");
    }
  }

  private static DeviceResources resources(
      Section section, StrategySpec strategy, DeviceType type) {
    Integer gpus =
        section.has("gpus_per_rank") ? (Integer) section.integer("gpus_per_rank", 1, 1) : null;
    Integer cpus =
        section.has("cpus_per_rank") ? (Integer) section.integer("cpus_per_rank", 1, 1) : null;
    section.finish();
    if (gpus != null && type == DeviceType.CPU) {
      section.problem("gpus_per_rank", "has no effect with device.type cpu. Take it out.");
    } else if (gpus != null && gpus != DeviceConfig.devicesPerRank(strategy)) {
      section.problem(
          "gpus_per_rank",
          "expected %d with strategy %s, got '%d'."
              .formatted(DeviceConfig.devicesPerRank(strategy), strategy.name(), gpus));
    }
    return new DeviceResources(gpus, cpus);
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
    if (!device.nccl().variables().isEmpty()) {
      parallel.put("nccl", new LinkedHashMap<>(device.nccl().variables()));
    }
    Map<String, @Nullable Object> keys = new LinkedHashMap<>();
    keys.put("type", Names.of(device.type()));
    keys.put("parallel", parallel);
    Map<String, @Nullable Object> resources = new LinkedHashMap<>();
    resources.put("gpus_per_rank", device.resources().gpusPerRank());
    resources.put("cpus_per_rank", device.resources().cpusPerRank());
    keys.put("resources", resources);
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
