package io.sparktrainer.spark.config;

import io.sparktrainer.optim.ScheduleSpec;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** {@code schedule: constant}. */
final class ConstantVariant implements Variant<ScheduleSpec> {
  @Override
  public String name() {
    return "constant";
  }

  @Override
  public ScheduleSpec read(Section section) {
    return ScheduleSpec.constant();
  }

  @Override
  public @Nullable Map<String, @Nullable Object> write(ScheduleSpec value) {
    return value instanceof ScheduleSpec.Constant ? Map.of() : null;
  }
}
