package io.sparktrainer.spark.config;

import io.sparktrainer.strategy.BackwardPrefetch;
import io.sparktrainer.strategy.FsdpOptions;
import io.sparktrainer.strategy.ShardingStrategy;
import io.sparktrainer.strategy.StrategySpec;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** {@code strategy: fsdp}. */
final class FsdpVariant implements Variant<StrategySpec> {
  @Override
  public String name() {
    return "fsdp";
  }

  @Override
  public @Nullable StrategySpec read(Section section) {
    Long workers = section.integer("workers", 1);
    if (!section.has("workers")) {
      section.missing("workers", "the number of ranks, such as 2");
    }
    FsdpOptions options = options(section.section("fsdp"));
    if (workers == null || options == null) {
      return null;
    }
    return section.build(() -> new StrategySpec.Fsdp(Math.toIntExact(workers), options));
  }

  /** Reads {@code fsdp}; null after a mistake was reported. */
  static @Nullable FsdpOptions options(Section section) {
    FsdpOptions defaults = FsdpOptions.defaults();
    FsdpOptions.Builder builder =
        FsdpOptions.builder()
            .shardingStrategy(
                section.constant(
                    "sharding_strategy", ShardingStrategy.class, defaults.shardingStrategy()))
            .backwardPrefetch(
                section.constant(
                    "backward_prefetch", BackwardPrefetch.class, defaults.backwardPrefetch()))
            .forwardPrefetch(section.flag("forward_prefetch", defaults.forwardPrefetch()))
            .limitAllGathers(section.flag("limit_all_gathers", defaults.limitAllGathers()))
            .cpuOffload(section.flag("cpu_offload", defaults.cpuOffload()))
            .accumulateSharded(section.flag("accumulate_sharded", defaults.accumulateSharded()));
    if (section.has("shard_group_size")) {
      builder.shardGroupSize(section.integer("shard_group_size", 1, 1));
    }
    var wrap = WrapVariants.read(section.section("wrap", WrapVariants.POLICY));
    section.finish();
    return wrap == null ? null : section.build(() -> builder.wrapPolicy(wrap).build());
  }

  @Override
  public @Nullable Map<String, @Nullable Object> write(StrategySpec value) {
    if (!(value instanceof StrategySpec.Fsdp fsdp)) {
      return null;
    }
    Map<String, @Nullable Object> keys = new LinkedHashMap<>();
    keys.put("workers", fsdp.workers());
    keys.put("fsdp", write(fsdp.options()));
    return keys;
  }

  /** The keys of {@code fsdp}. */
  static Map<String, @Nullable Object> write(FsdpOptions options) {
    Map<String, @Nullable Object> written = new LinkedHashMap<>();
    written.put("sharding_strategy", options.shardingStrategy().name());
    written.put("shard_group_size", options.shardGroupSize());
    written.put("backward_prefetch", options.backwardPrefetch().name());
    written.put("forward_prefetch", options.forwardPrefetch());
    written.put("limit_all_gathers", options.limitAllGathers());
    written.put("cpu_offload", options.cpuOffload());
    written.put("accumulate_sharded", options.accumulateSharded());
    written.put("wrap", WrapVariants.write(options.wrapPolicy()));
    return written;
  }
}
