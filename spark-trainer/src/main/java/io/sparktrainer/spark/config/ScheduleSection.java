package io.sparktrainer.spark.config;

import io.sparktrainer.optim.ScheduleSpec;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Reads and writes {@code schedule}. */
final class ScheduleSection {
  private static final Variants<ScheduleSpec> SCHEDULES =
      new Variants<>(
          "type", List.of(new ConstantVariant(), new StepVariant(), new CosineVariant()));

  private ScheduleSection() {}

  static @Nullable ScheduleSpec read(Section section) {
    ScheduleSpec schedule = SCHEDULES.read(section, "constant");
    section.finish();
    return schedule;
  }

  static Map<String, @Nullable Object> write(ScheduleSpec schedule) {
    return SCHEDULES.write(schedule);
  }
}
