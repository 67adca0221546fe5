package io.sparktrainer.spark.config;

import io.sparktrainer.optim.ScheduleSpec;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** {@code schedule: {type: cosine}}. */
final class CosineVariant implements Variant<ScheduleSpec> {
  @Override
  public String name() {
    return "cosine";
  }

  @Override
  public @Nullable ScheduleSpec read(Section section) {
    Long warmup = section.integer("warmup_steps", 0);
    double minFactor = section.number("min_factor", NumberRange.NOT_NEGATIVE, 0);
    return section.build(() -> new ScheduleSpec.Cosine(warmup == null ? 0 : warmup, minFactor));
  }

  @Override
  public @Nullable Map<String, @Nullable Object> write(ScheduleSpec value) {
    if (!(value instanceof ScheduleSpec.Cosine cosine)) {
      return null;
    }
    Map<String, @Nullable Object> keys = new LinkedHashMap<>();
    keys.put("warmup_steps", cosine.warmupSteps());
    keys.put("min_factor", cosine.minFactor());
    return keys;
  }
}
