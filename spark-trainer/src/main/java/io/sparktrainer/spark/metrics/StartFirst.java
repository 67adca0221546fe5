package io.sparktrainer.spark.metrics;

import java.util.ArrayList;
import java.util.List;

/**
 * Holds records back until the one with the number of steps has come: rank 0 sends it before any
 * rank's first step, but each rank has a connection of its own. For one thread at a time.
 */
final class StartFirst implements MetricSink {
  /** So that nothing piles up where rank 0 cannot reach the driver. */
  static final int MOST_HELD = 1_000;

  private final MetricSink sink;
  private final List<MetricRecord> held = new ArrayList<>();
  private boolean released;

  StartFirst(MetricSink sink) {
    this.sink = sink;
  }

  @Override
  public void accept(MetricRecord record) {
    if (released) {
      sink.accept(record);
    } else if (record instanceof MetricRecord.Start) {
      sink.accept(record);
      release();
    } else {
      held.add(record);
      if (held.size() >= MOST_HELD) {
        release();
      }
    }
  }

  /** Passes on what is held, and holds nothing from now on. */
  void release() {
    released = true;
    held.forEach(sink::accept);
    held.clear();
  }
}
