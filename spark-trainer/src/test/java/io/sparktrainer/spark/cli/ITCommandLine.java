package io.sparktrainer.spark.cli;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

/** The packaged command on threads of one process, and what it says when something is wrong. */
class ITCommandLine extends CommandLine {
  private static final Pattern OURS = Pattern.compile("spark-trainer|bytedeco|picocli");

  @Test
  void trainsOnThreadsAndShowsTheTable() throws Exception {
    try (var script = train("local[2]", "--set", "training.epochs=3")) {
      assertThat(script.exitCode(SECONDS)).as(script.output()).isZero();
      assertThat(script.output())
          .contains(
              "strategy ddp, 2 ranks, 180 training rows, 20 test rows, 12 steps per epoch, 36 steps in all, run folder ")
          .contains("epoch 1/3")
          .contains("epoch  train loss  train acc  test loss   test acc   samples/s   seconds")
          .contains("model    " + folder.resolve("run/model.safetensors"))
          .contains("metrics  " + folder.resolve("run/metrics.jsonl"))
          .doesNotContain("INFO");
    }
    assertThat(folder.resolve("run/model.safetensors")).exists();
    assertThat(Files.readString(folder.resolve("run/config.yaml"))).contains("epochs: 3");
  }

  @Test
  void aFailureIsOneMessageAndNotZero() throws Exception {
    try (var script = train("local[1]")) {
      assertThat(script.exitCode(SECONDS)).isEqualTo(1);
      assertThat(script.output().lines())
          .contains(
              "Cannot start the training: expected 2 slots, one per rank, got 1 on master local[1] (0 executors of 1 per task). Use --master local[2] or fewer workers.")
          .noneMatch(line -> line.contains("\tat "));
    }
  }

  @Test
  void aNativeLibraryThatCannotLoadIsOneMessage() throws Exception {
    Map<String, String> environment =
        Map.of("JAVA_TOOL_OPTIONS", "-Dorg.bytedeco.javacpp.platform=linux-nosuch");

    try (var script = train(environment, "local[2]")) {
      assertThat(script.exitCode(SECONDS)).isEqualTo(1);
      assertThat(script.output())
          .contains("loading libtorch: Cannot load libtorch: expected native libraries for")
          .contains("linux-nosuch")
          .doesNotContain("\tat ");
    }
  }

  @Test
  void usesSparkSubmitWhereThereIsAnInstallation() throws Exception {
    Path home = installation();

    try (var script = train(Map.of("SPARK_HOME", home.toString()), "local[2]")) {
      assertThat(script.exitCode(SECONDS)).as(script.output()).isZero();
      assertThat(script.output()).contains("model    " + folder.resolve("run/model.safetensors"));
    }
    assertThat(home.resolve("submitted")).exists();
  }

  /** Spark's own jars without ours, and a spark-submit that does what Spark's script does. */
  private Path installation() throws Exception {
    Path home = folder.resolve("spark");
    Path jars = Files.createDirectories(home.resolve("jars"));
    for (String file : List.of("spark.classpath", "own.classpath")) {
      String classPath = Files.readString(Path.of("target/launcher", file));
      for (String entry : classPath.strip().split(File.pathSeparator, -1)) {
        // Of what we bring, Spark has the loggers and parsers, too.
        if (!OURS.matcher(entry).find()) {
          Path jar = Path.of(entry);
          Files.createSymbolicLink(jars.resolve(jar.getFileName()), jar);
        }
      }
    }
    Path script = Files.createDirectories(home.resolve("bin")).resolve("spark-submit");
    Files.writeString(
        script,
        """
        #!/usr/bin/env bash
        touch "$SPARK_HOME/submitted"
        { read -r _; mapfile -d '' -t command; } < <(
          java -cp "$SPARK_HOME/jars/*" org.apache.spark.launcher.Main \\
            org.apache.spark.deploy.SparkSubmit "$@")
        exec "${command[@]}"
        """);
    assertThat(script.toFile().setExecutable(true)).isTrue();
    return home;
  }
}
