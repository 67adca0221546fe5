package io.sparktrainer.spark.config;

import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.strategy.FsdpOptions;
import io.sparktrainer.strategy.StrategySpec;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** {@code strategy: auto}: the options of what may be chosen stand beside it. */
final class AutoVariant implements Variant<StrategySpec> {
  @Override
  public String name() {
    return "auto";
  }

  @Override
  public @Nullable StrategySpec read(Section section) {
    Long workers = section.integer("workers", 1);
    if (!section.has("workers")) {
      section.missing("workers", "the number of ranks, such as 2");
    }
    DdpOptions ddp = DdpVariant.options(section.section("ddp"));
    FsdpOptions fsdp = FsdpVariant.options(section.section("fsdp"));
    if (workers == null || ddp == null || fsdp == null) {
      return null;
    }
    return section.build(() -> new StrategySpec.Auto(Math.toIntExact(workers), ddp, fsdp));
  }

  @Override
  public @Nullable Map<String, @Nullable Object> write(StrategySpec value) {
    if (!(value instanceof StrategySpec.Auto auto)) {
      return null;
    }
    Map<String, @Nullable Object> keys = new LinkedHashMap<>();
    keys.put("workers", auto.workers());
    keys.put("ddp", DdpVariant.write(auto.ddp()));
    keys.put("fsdp", FsdpVariant.write(auto.fsdp()));
    return keys;
  }
}
