package io.sparktrainer.spark.metrics;

/** Takes figures on the driver as they come in; called by one thread at a time. */
public interface MetricSink {
  /** A figure has come in. */
  void accept(MetricRecord record);
}
