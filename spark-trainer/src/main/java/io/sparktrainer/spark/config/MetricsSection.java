package io.sparktrainer.spark.config;

import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Reads and writes {@code metrics}. */
final class MetricsSection {
  private MetricsSection() {}

  static MetricsConfig read(Section section) {
    MetricsConfig defaults = MetricsConfig.defaults();
    MetricsConfig metrics =
        new MetricsConfig(
            section.flag("console", defaults.console()), section.flag("jsonl", defaults.jsonl()));
    section.notInThisVersion("tensorboard", "false");
    section.notInThisVersion("mlflow", "false");
    section.notInThisVersion("report", "false");
    section.finish();
    return metrics;
  }

  static Map<String, @Nullable Object> write(MetricsConfig metrics) {
    Map<String, @Nullable Object> keys = new LinkedHashMap<>();
    keys.put("console", metrics.console());
    keys.put("jsonl", metrics.jsonl());
    return keys;
  }
}
