package io.sparktrainer.spark.metrics;

import io.sparktrainer.engine.EpochMetrics;
import io.sparktrainer.engine.StepMetrics;
import java.io.PrintStream;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;

/**
 * Shows how far a training is: one line that is written over on a terminal, else a line every few
 * seconds.
 */
public final class ConsoleProgress implements MetricSink {
  /** What the output can do. */
  public enum Style {
    /** Lines can be written over. */
    TERMINAL(200),
    /** A file or a pipe. */
    PLAIN(5_000);

    private final long intervalMillis;

    Style(long intervalMillis) {
      this.intervalMillis = intervalMillis;
    }

    /**
     * What standard output is: a terminal where the system property {@code sparktrainer.terminal}
     * says so, as bin/spark-train finds out; Java 17 cannot ask about one stream alone.
     */
    public static Style detect() {
      return Boolean.getBoolean("sparktrainer.terminal") ? TERMINAL : PLAIN;
    }
  }

  private final PrintStream out;
  private final Style style;
  private final int epochs;
  private final int worldSize;
  private final LongSupplier nanoTime;
  private long lastShown;
  private int shownWidth;

  /**
   * @param epochs epochs of the training
   * @param worldSize number of ranks
   */
  public ConsoleProgress(PrintStream out, Style style, int epochs, int worldSize) {
    this(out, style, epochs, worldSize, System::nanoTime);
  }

  ConsoleProgress(PrintStream out, Style style, int epochs, int worldSize, LongSupplier nanoTime) {
    this.out = out;
    this.style = style;
    this.epochs = epochs;
    this.worldSize = worldSize;
    this.nanoTime = nanoTime;
    this.lastShown = nanoTime.getAsLong() - TimeUnit.MILLISECONDS.toNanos(style.intervalMillis);
  }

  @Override
  public void accept(MetricRecord record) {
    if (record instanceof MetricRecord.Step step && step.rank() == 0) {
      long now = nanoTime.getAsLong();
      if (now - lastShown >= TimeUnit.MILLISECONDS.toNanos(style.intervalMillis)) {
        lastShown = now;
        show(line(step.metrics()));
      }
    } else if (record instanceof MetricRecord.Epoch epoch) {
      show(line(epoch.metrics()));
      endLine();
    }
  }

  private String line(StepMetrics step) {
    return String.format(
        Locale.ROOT,
        "epoch %d/%d  step %d/%d  loss %.4f  %,d samples/s",
        step.epoch() + 1,
        epochs,
        step.step() + 1,
        step.stepsPerEpoch(),
        step.loss(),
        Math.round(worldSize * step.rows() / Math.max(step.seconds(), 1e-9)));
  }

  private String line(EpochMetrics epoch) {
    String test =
        epoch.evalLoss() == null
            ? ""
            : String.format(Locale.ROOT, "  test loss %.4f", epoch.evalLoss())
                + (epoch.evalAccuracy() == null
                    ? ""
                    : String.format(Locale.ROOT, "  test accuracy %.4f", epoch.evalAccuracy()));
    return String.format(
        Locale.ROOT,
        "epoch %d/%d  done in %.1f s  loss %.4f%s",
        epoch.epoch() + 1,
        epochs,
        epoch.seconds(),
        epoch.loss(),
        test);
  }

  private void show(String line) {
    if (style == Style.PLAIN) {
      out.println(line);
    } else {
      // Blanks rub out what a longer line before left behind.
      out.print("\r" + line + " ".repeat(Math.max(0, shownWidth - line.length())));
      out.flush();
      shownWidth = line.length();
    }
  }

  /** Leaves the line that is being written over. */
  public void endLine() {
    if (style == Style.TERMINAL && shownWidth > 0) {
      out.println();
      shownWidth = 0;
    }
  }
}
