package io.sparktrainer.spark;

import io.sparktrainer.engine.EpochMetrics;
import io.sparktrainer.spark.config.TrainerConfig;
import io.sparktrainer.spark.metrics.ConsoleProgress;
import io.sparktrainer.spark.metrics.EpochTable;
import io.sparktrainer.spark.metrics.JsonLines;
import io.sparktrainer.spark.metrics.MetricRecord;
import io.sparktrainer.spark.metrics.MetricSink;
import io.sparktrainer.spark.metrics.MetricsAddress;
import io.sparktrainer.spark.metrics.MetricsServer;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.HashSet;
import java.util.Locale;
import java.util.Set;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The driver's side of a training's figures: console, JSON lines and result, as configured. */
final class Reports implements MetricSink, AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(Reports.class);
  private static final String PORT = "spark.sparktrainer.metrics.port";
  private static final String LOOPBACK = "127.0.0.1";

  private final TrainerConfig config;
  private final RunFolder folder;
  private final @Nullable String strategyReason;
  private final @Nullable ConsoleProgress console;
  private final @Nullable JsonLines lines;
  private final Set<Integer> epochsSeen = new HashSet<>();
  private @Nullable MetricsServer server;
  private boolean announced;

  private Reports(
      TrainerConfig config,
      RunFolder folder,
      @Nullable String strategyReason,
      @Nullable JsonLines lines) {
    this.config = config;
    this.strategyReason = strategyReason;
    this.folder = folder;
    this.lines = lines;
    this.console =
        config.metrics().console()
            ? new ConsoleProgress(
                System.out,
                ConsoleProgress.Style.detect(),
                config.training().epochs(),
                config.workers())
            : null;
  }

  /**
   * @param strategyReason why {@code auto} took the strategy, if it did
   * @throws IllegalArgumentException if the run folder cannot be written
   */
  static Reports open(
      SparkContext spark, TrainerConfig config, RunFolder folder, @Nullable String strategyReason) {
    JsonLines lines = null;
    try {
      if (config.metrics().jsonl()) {
        lines = new JsonLines(folder.open(RunFolder.METRICS));
      }
    } catch (IOException e) {
      throw new IllegalArgumentException(
          "Cannot write %s: %s.".formatted(folder.path(RunFolder.METRICS), e), e);
    }
    Reports reports = new Reports(config, folder, strategyReason, lines);
    if (config.metrics().console() || config.metrics().jsonl()) {
      reports.listen(spark.conf(), spark.isLocal());
    }
    return reports;
  }

  /**
   * Says what is about to start, before the first step: now, or when rank 0 has told how many steps
   * there are.
   *
   * @param start the steps, or null where only the ranks will know them
   */
  void announce(MetricRecord.@Nullable Start start) {
    if (console != null && strategyReason != null) {
      System.out.println("strategy auto: " + strategyReason);
    }
    if (start != null) {
      show(start);
    }
  }

  private void show(MetricRecord.Start start) {
    if (console != null && !announced) {
      System.out.printf(
          Locale.ROOT,
          "strategy %s, %d %s, %,d training rows, %,d test rows, %,d steps per epoch, %,d steps in all, run folder %s%n",
          config.device().strategy().name(),
          config.workers(),
          config.workers() == 1 ? "rank" : "ranks",
          start.trainingRows(),
          start.testRows(),
          start.stepsPerEpoch(),
          start.steps(),
          folder.path());
    }
    announced = true;
  }

  private void listen(SparkConf conf, boolean local) {
    String host = local ? LOOPBACK : conf.get("spark.driver.host", LOOPBACK);
    String bindHost = local ? LOOPBACK : conf.get("spark.driver.bindAddress", host);
    try {
      server = MetricsServer.start(bindHost, host, conf.getInt(PORT, 0), this);
    } catch (IOException e) {
      LOG.warn(
          "Cannot listen for metrics on {}: {}. Training goes on; there is no progress to show.",
          bindHost,
          e.toString());
    }
  }

  /** Where ranks send figures, or null for nowhere. */
  @Nullable MetricsAddress address() {
    return server == null ? null : server.address();
  }

  @Override
  public void accept(MetricRecord record) {
    if (record instanceof MetricRecord.Epoch epoch) {
      epochsSeen.add(epoch.metrics().epoch());
    }
    if (record instanceof MetricRecord.Start start) {
      show(start);
    } else if (console != null) {
      console.accept(record);
    }
    if (lines != null) {
      lines.accept(record);
    }
  }

  /** Writes the result, and shows it. */
  TrainingResult finish(RankOutcome outcome, double seconds) {
    stopListening();
    for (EpochMetrics epoch : outcome.epochs()) {
      if (lines != null && !epochsSeen.contains(epoch.epoch())) {
        lines.accept(new MetricRecord.Epoch(epoch));
      }
    }
    if (outcome.deviceLack() != null) {
      LOG.warn("All ranks computed on the processor, as {}", outcome.deviceLack());
    }
    TrainingResult result =
        new TrainingResult(
            config.device().strategy().name(),
            strategyReason,
            outcome.epochs(),
            outcome.ranks().stream().map(TrainingResult.Participant::of).toList(),
            outcome.deviceLack(),
            outcome.memory(),
            outcome.parameters(),
            outcome.stepsPerEpoch(),
            outcome.steps(),
            seconds,
            folder.path(),
            folder.path(RunFolder.MODEL),
            lines == null ? null : folder.path(RunFolder.METRICS));
    try {
      folder.write(RunFolder.RESULT, result.toJson());
    } catch (IOException e) {
      throw new UncheckedIOException("Cannot write " + folder.path(RunFolder.RESULT), e);
    }
    if (console != null) {
      show(result);
    }
    return result;
  }

  private static void show(TrainingResult result) {
    System.out.println();
    System.out.print(EpochTable.of(result.epochs(), result.deviceMemory()));
    System.out.println();
    if (result.deviceLack() != null) {
      System.out.println("device   cpu for all ranks: " + result.deviceLack());
    }
    System.out.println("model    " + result.modelPath());
    if (result.metricsPath() != null) {
      System.out.println("metrics  " + result.metricsPath());
    }
  }

  private void stopListening() {
    if (server == null) {
      return;
    }
    try {
      server.close();
    } catch (IOException e) {
      LOG.debug("Cannot close the listener for metrics", e);
    }
    server = null;
  }

  @Override
  public void close() {
    stopListening();
    if (console != null) {
      console.endLine();
    }
    if (lines != null) {
      try {
        lines.close();
      } catch (IOException e) {
        LOG.warn("Cannot finish {}: {}", folder.path(RunFolder.METRICS), e.toString());
      }
    }
  }
}
