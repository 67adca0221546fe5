package io.sparktrainer.spark.metrics;

import io.sparktrainer.engine.EpochMetrics;
import java.util.List;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/** The epochs of a training as a table for people. */
public final class EpochTable {
  private static final String HEAD = "%5s  %10s  %9s  %9s  %9s  %10s  %8s%n";
  private static final String ROW = "%5d  %10s  %9s  %9s  %9s  %,10d  %8.1f%n";

  private EpochTable() {}

  /**
   * One row per epoch: training loss, accuracy on the training rows and loss and accuracy on the
   * rows held back, samples per second, seconds. A figure that a training does not have is a dash.
   */
  public static String of(List<EpochMetrics> epochs) {
    StringBuilder table = new StringBuilder();
    table.append(
        HEAD.formatted(
            "epoch", "train loss", "train acc", "test loss", "test acc", "samples/s", "seconds"));
    for (EpochMetrics epoch : epochs) {
      table.append(
          ROW.formatted(
              epoch.epoch() + 1,
              number(epoch.loss()),
              number(epoch.accuracy()),
              number(epoch.evalLoss()),
              number(epoch.evalAccuracy()),
              Math.round(epoch.samplesPerSecond()),
              epoch.seconds()));
    }
    return table.toString();
  }

  static String number(@Nullable Double value) {
    return value == null ? "-" : String.format(Locale.ROOT, "%.4f", value);
  }
}
