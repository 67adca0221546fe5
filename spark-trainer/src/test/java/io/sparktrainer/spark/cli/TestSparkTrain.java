package io.sparktrainer.spark.cli;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

/** What ends before Spark starts. */
class TestSparkTrain {
  private final StringWriter err = new StringWriter();

  @Test
  void wrongUsageIsTwo() {
    assertThat(run("train")).isEqualTo(2);
    assertThat(err.toString()).contains("Missing required option: '--config=FILE'");
  }

  @Test
  void aMissingFileIsOneLine(@TempDir Path folder) {
    Path file = folder.resolve("none.yaml");

    assertThat(run("train", "--config", file.toString())).isEqualTo(1);
    assertThat(err.toString().lines())
        .containsExactly("Cannot read the configuration " + file + ": there is no such file.");
  }

  @Test
  void mistakesAreListedWithoutAStackTrace(@TempDir Path folder) throws Exception {
    Path file = Files.writeString(folder.resolve("train.yaml"), "data: {features: [x]}\n");

    assertThat(run("train", "--config", file.toString(), "--set", "training.epochs=0"))
        .isEqualTo(1);
    assertThat(err.toString().lines())
        .hasSize(4)
        .anyMatch(line -> line.contains("training.epochs (--set training.epochs=0)"))
        .noneMatch(line -> line.contains("\tat "));
  }

  @Test
  void verboseShowsTheStackTrace(@TempDir Path folder) {
    assertThat(run("train", "--verbose", "--config", folder.resolve("no").toString())).isEqualTo(1);
    assertThat(err.toString()).contains("\tat io.sparktrainer.spark.cli.TrainCommand");
  }

  private int run(String... args) {
    CommandLine commandLine = SparkTrain.commandLine();
    commandLine.setErr(new PrintWriter(err, true));
    return commandLine.execute(args);
  }
}
