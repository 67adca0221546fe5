package io.sparktrainer.spark.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

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
  private final StringWriter out = new StringWriter();

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

  @Test
  void planShowsThePathAndATable(@TempDir Path folder) throws Exception {
    Path file =
        Files.writeString(
            folder.resolve("train.yaml"),
            """
            device: {parallel: {strategy: auto, workers: 4}}
            data: {features: [x], shape: [8], label: y}
            model: {type: mlp, hidden: [16], outputs: 2}
            """);

    assertThat(run("plan", "--config", file.toString(), "--memory", "2GiB")).isZero();

    assertThat(err.toString()).isEmpty();
    assertThat(out.toString().lines())
        .contains("  machines     4 ranks on 1 host, 2.00 GiB of cpu memory for each")
        .anyMatch(line -> line.matches("  under 1 billion parameters\\?  178 parameters +yes"))
        .anyMatch(line -> line.matches("  fits one device\\? .* 8.00 GiB available +yes"))
        .anyMatch(line -> line.matches("  ddp, gradient_as_bucket_view .* yes .*"))
        .anyMatch(line -> line.startsWith("Chosen: none ("));
  }

  @Test
  void plansForGpusThatAreNotHereIfTheirMemoryIsGiven(@TempDir Path folder) throws Exception {
    Path file =
        Files.writeString(
            folder.resolve("train.yaml"),
            """
            device: {type: cuda, parallel: {strategy: auto, workers: 4}}
            data: {features: [x], shape: [8], label: y}
            model: {type: mlp, hidden: [16], outputs: 2}
            """);

    assertThat(run("plan", "--config", file.toString(), "--memory", "80GiB", "--hosts", "2"))
        .isZero();

    assertThat(err.toString()).isEmpty();
    assertThat(out.toString().lines())
        .contains("  machines     4 ranks on 2 hosts, 80.00 GiB of cuda memory for each")
        .anyMatch(line -> line.contains("cpu_offload"));
  }

  @Test
  void planOfAModelBeyondAnyMemoryIsNoFailure(@TempDir Path folder) throws Exception {
    Path file =
        Files.writeString(
            folder.resolve("train.yaml"),
            """
            device: {parallel: {strategy: auto, workers: 8}, mixed_precision: bf16}
            data: {features: [tokens], label: next}
            model: {type: gpt, vocab: 128000, context: 8192, width: 8192, heads: 64, layers: 84}
            training: {batch_size: 1}
            """);

    assertThat(run("plan", "--config", file.toString(), "--memory", "1GiB", "--hosts", "2"))
        .isZero();

    assertThat(out.toString())
        .contains("69.82 billion parameters")
        .contains("85, the largest 2.16 billion parameters (outside blocks)")
        .contains("estimated from the shapes of matrices, not measured")
        .contains("Chosen: nothing (under 1 billion parameters? no");
  }

  @Test
  void memoryIsASize() {
    assertThat(PlanCommand.bytes("1.5GiB")).isEqualTo(3L << 29);
    assertThat(PlanCommand.bytes("24 MiB")).isEqualTo(24L << 20);
    assertThatThrownBy(() -> PlanCommand.bytes("5"))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("Cannot use --memory 5: expected a size such as 512MiB, 24GiB or 1.5TiB.");
  }

  private int run(String... args) {
    CommandLine commandLine = SparkTrain.commandLine();
    commandLine.setOut(new PrintWriter(out, true));
    commandLine.setErr(new PrintWriter(err, true));
    return commandLine.execute(args);
  }
}
