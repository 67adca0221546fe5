package io.sparktrainer.spark.metrics;

import io.sparktrainer.engine.EpochMetrics;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/** The epochs of a training as a table for people. */
public final class EpochTable {
  private static final String HEAD = "%5s  %10s  %9s  %9s  %9s  %10s  %8s";
  private static final String ROW = "%5d  %10s  %9s  %9s  %9s  %,10d  %8.1f";
  private static final String MEMORY = "  %15s";
  private static final double GIB = 1L << 30;

  private EpochTable() {}

  /**
   * One row per epoch: training loss, accuracy on the training rows and loss and accuracy on the
   * rows held back, samples per second, seconds. A figure that a training does not have is a dash.
   *
   * @param memory of the ranks' GPUs; where there are any, the fullest of them is one more column
   */
  public static String of(List<EpochMetrics> epochs, List<DeviceMemory> memory) {
    StringBuilder table = new StringBuilder();
    table.append(
        HEAD.formatted(
            "epoch", "train loss", "train acc", "test loss", "test acc", "samples/s", "seconds"));
    table.append(memory.isEmpty() ? "" : MEMORY.formatted("GPU memory"));
    table.append(System.lineSeparator());
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
      table.append(memory.isEmpty() ? "" : MEMORY.formatted(fullest(epoch.epoch(), memory)));
      table.append(System.lineSeparator());
    }
    return table.toString();
  }

  private static String fullest(int epoch, List<DeviceMemory> memory) {
    return memory.stream()
        .filter(figures -> figures.epoch() == epoch)
        .max(Comparator.comparingDouble(DeviceMemory::share))
        .map(
            figures ->
                String.format(
                    Locale.ROOT,
                    "%.1f GiB (%.0f%%)",
                    figures.peakBytes() / GIB,
                    100 * figures.share()))
        .orElse("-");
  }

  static String number(@Nullable Double value) {
    return value == null ? "-" : String.format(Locale.ROOT, "%.4f", value);
  }
}
