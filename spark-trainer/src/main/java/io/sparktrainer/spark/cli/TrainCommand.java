package io.sparktrainer.spark.cli;

import io.sparktrainer.spark.EmbeddedSpark;
import io.sparktrainer.spark.SparkTrainer;
import io.sparktrainer.spark.TrainingResult;
import io.sparktrainer.spark.config.TrainerConfig;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.concurrent.Callable;
import org.apache.spark.sql.SparkSession;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/** {@code spark-train train}. */
@Command(
    name = "train",
    mixinStandardHelpOptions = true,
    description = "Trains the model that a configuration describes.")
final class TrainCommand implements Callable<Integer> {
  private static final String MASTER = "spark.master";

  @Option(
      names = "--config",
      required = true,
      paramLabel = "FILE",
      description = "the configuration, YAML")
  private @Nullable Path configFile;

  @Option(
      names = "--master",
      paramLabel = "URL",
      description =
          "Spark's master, such as local[2] or spark://host:7077; by default what spark-submit was given, else local[RANKS]")
  private @Nullable String master;

  @Option(
      names = "--set",
      paramLabel = "KEY=VALUE",
      description = "sets a key of the configuration, such as training.epochs=3; may be repeated")
  private String[] overrides = {};

  @Option(
      names = "--conf",
      paramLabel = "KEY=VALUE",
      description = "sets an option of Spark; may be repeated")
  private String[] sparkOptions = {};

  // Read by bin/spark-train and ErrorReport.
  @Option(names = "--verbose", description = "shows Spark's log and stack traces")
  boolean verbose;

  @Override
  public Integer call() throws IOException {
    TrainerConfig config = readConfig();
    try (SparkSession session = session(config.workers())) {
      TrainingResult unused = new SparkTrainer(config).fit(session);
    }
    return 0;
  }

  private TrainerConfig readConfig() throws IOException {
    if (configFile == null) {
      throw new IllegalStateException(
          "Cannot train: picocli lets no call without --config through.");
    }
    try {
      return TrainerConfig.read(configFile, overrides);
    } catch (NoSuchFileException e) {
      throw new IllegalArgumentException(
          "Cannot read the configuration " + configFile + ": there is no such file.", e);
    }
  }

  private SparkSession session(int workers) throws IOException {
    SparkSession.Builder builder = SparkSession.builder().appName("spark-train");
    String given = System.getProperty(MASTER);
    String url = master != null ? master : given != null ? given : "local[" + workers + "]";
    builder.master(url);
    String home = System.getenv("SPARK_HOME");
    if (home != null && !url.startsWith("local[") && !Files.exists(Path.of(home, "bin"))) {
      EmbeddedSpark.prepare(Path.of(home)).forEach(builder::config);
    }
    builder.config("spark.ui.enabled", System.getProperty("spark.ui.enabled", "false"));
    for (String option : sparkOptions) {
      int equals = option.indexOf('=');
      if (equals < 1) {
        throw new IllegalArgumentException(
            "Cannot use --conf %s: expected KEY=VALUE, such as spark.executor.memory=2g."
                .formatted(option));
      }
      builder.config(option.substring(0, equals), option.substring(equals + 1));
    }
    return builder.getOrCreate();
  }
}
