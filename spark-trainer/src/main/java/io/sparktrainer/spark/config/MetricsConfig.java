package io.sparktrainer.spark.config;

/**
 * Section {@code metrics}: where the figures of a training go.
 *
 * @param console progress and a table per epoch on standard output; true by default
 * @param jsonl one JSON line per step and epoch in the run folder; true by default
 */
public record MetricsConfig(boolean console, boolean jsonl) {
  /** Console and JSON lines. */
  public static MetricsConfig defaults() {
    return new MetricsConfig(true, true);
  }

  /** JSON lines only. */
  public static MetricsConfig quiet() {
    return new MetricsConfig(false, true);
  }
}
