package io.sparktrainer.spark.cli;

import io.sparktrainer.spark.TrainingPlan;
import io.sparktrainer.spark.config.TrainerConfig;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.concurrent.Callable;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.SparkSession;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** {@code spark-train plan}. */
@Command(
    name = "plan",
    mixinStandardHelpOptions = true,
    description =
        "Predicts memory and communication of every strategy, and says what 'strategy: auto' takes.")
final class PlanCommand implements Callable<Integer> {
  private static final String MASTER = "spark.master";
  private static final Pattern MEMORY = Pattern.compile("(\\d{1,6}(?:\\.\\d+)?) ?(MiB|GiB|TiB)");

  @Spec private @Nullable CommandSpec spec;

  @Option(
      names = "--config",
      required = true,
      paramLabel = "FILE",
      description = "the configuration, YAML")
  private @Nullable Path configFile;

  @Option(
      names = "--set",
      paramLabel = "KEY=VALUE",
      description =
          "sets a key of the configuration, such as training.batch_size=8; may be repeated")
  private String[] overrides = {};

  @Option(
      names = "--master",
      paramLabel = "URL",
      description = "Spark's master, where the data's schema is needed; by default local[1]")
  private @Nullable String master;

  @Option(
      names = "--hosts",
      paramLabel = "N",
      description = "machines to plan for; by default those that Spark has")
  private @Nullable Integer hosts;

  @Option(
      names = "--memory",
      paramLabel = "SIZE",
      description = "memory of each rank, such as 24GiB; by default its share of what is free")
  private @Nullable String memory;

  // Read by bin/spark-train and ErrorReport.
  @Option(names = "--verbose", description = "shows Spark's log and stack traces")
  boolean verbose;

  @Override
  public Integer call() throws IOException {
    TrainingPlan plan = new TrainingPlan(config());
    if (hosts != null) {
      plan.hosts(hosts);
    }
    if (memory != null) {
      plan.bytesPerRank(bytes(memory));
    }
    String text;
    if (plan.needsData()) {
      try (SparkSession session = session()) {
        text = plan.of(session).toString();
      }
    } else {
      text = plan.withoutData().toString();
    }
    if (spec == null) {
      throw new IllegalStateException("Cannot plan: picocli sets what the command belongs to.");
    }
    PrintWriter out = spec.commandLine().getOut();
    out.print(text);
    out.flush();
    return 0;
  }

  private TrainerConfig config() throws IOException {
    if (configFile == null) {
      throw new IllegalStateException(
          "Cannot plan: picocli lets no call without --config through.");
    }
    try {
      return TrainerConfig.read(configFile, overrides);
    } catch (NoSuchFileException e) {
      throw new IllegalArgumentException(
          "Cannot read the configuration " + configFile + ": there is no such file.", e);
    }
  }

  private SparkSession session() {
    String given = System.getProperty(MASTER);
    return SparkSession.builder()
        .appName("spark-train plan")
        .master(master != null ? master : given != null ? given : "local[1]")
        .config("spark.ui.enabled", "false")
        .getOrCreate();
  }

  static long bytes(String size) {
    Matcher matcher = MEMORY.matcher(size);
    if (!matcher.matches()) {
      throw new IllegalArgumentException(
          "Cannot use --memory %s: expected a size such as 512MiB, 24GiB or 1.5TiB."
              .formatted(size));
    }
    int power =
        switch (matcher.group(2)) {
          case "MiB" -> 20;
          case "GiB" -> 30;
          default -> 40;
        };
    return (long) (Double.parseDouble(matcher.group(1)) * (1L << power));
  }
}
