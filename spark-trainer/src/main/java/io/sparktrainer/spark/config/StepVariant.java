package io.sparktrainer.spark.config;

import io.sparktrainer.optim.ScheduleSpec;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** {@code schedule: {type: step}}. */
final class StepVariant implements Variant<ScheduleSpec> {
  private static final double DEFAULT_GAMMA = 0.1;

  @Override
  public String name() {
    return "step";
  }

  @Override
  public @Nullable ScheduleSpec read(Section section) {
    Long stepSize = section.integer("step_size", 1);
    double gamma = section.number("gamma", NumberRange.POSITIVE, DEFAULT_GAMMA);
    if (!section.has("step_size")) {
      section.missing("step_size", "the number of steps between two changes, such as 1000");
    }
    return stepSize == null ? null : section.build(() -> ScheduleSpec.step(stepSize, gamma));
  }

  @Override
  public @Nullable Map<String, @Nullable Object> write(ScheduleSpec value) {
    if (!(value instanceof ScheduleSpec.Step step)) {
      return null;
    }
    Map<String, @Nullable Object> keys = new LinkedHashMap<>();
    keys.put("step_size", step.stepSize());
    keys.put("gamma", step.gamma());
    return keys;
  }
}
