package io.sparktrainer.spark.cli;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.regex.Pattern;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The packaged command, on every kind of master that needs no installation of Spark. */
class ITCommandLine {
  private static final int SECONDS = 240;
  private static final String PATIENCE = "spark.sparktrainer.slotWaitSeconds=120";

  private static final Pattern OURS = Pattern.compile("spark-trainer|bytedeco|picocli");

  @TempDir Path folder;
  private Path config;

  @BeforeEach
  void writeConfiguration() throws Exception {
    Random random = new Random(1);
    StringBuilder rows = new StringBuilder("x1,x2,label\n");
    for (int i = 0; i < 200; i++) {
      double x1 = random.nextDouble() - 0.5;
      double x2 = random.nextDouble() - 0.5;
      rows.append(x1).append(',').append(x2).append(',').append(x1 > x2 ? 1 : 0).append('\n');
    }
    Files.writeString(folder.resolve("rows.csv"), rows);
    config =
        Files.writeString(
            folder.resolve("train.yaml"),
            """
            device: {parallel: {strategy: ddp, workers: 2}}
            data:
              source: csv
              path: %s
              options: {header: true, inferSchema: true}
              features: [x1, x2]
              label: label
              validation: 0.1
            model: {type: mlp, hidden: [8]}
            optimizer: {type: adam, lr: 0.05}
            training: {epochs: 2, batch_size: 8}
            output: %s
            """
                .formatted(folder.resolve("rows.csv"), folder.resolve("run")));
  }

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
  void trainsOnALocalCluster() throws Exception {
    try (var script = train("local-cluster[2,1,1024]", "--conf", PATIENCE)) {
      assertThat(script.exitCode(SECONDS)).as(script.output()).isZero();
    }
    assertThat(Files.readString(folder.resolve("run/result.json"))).contains("\"rank\" : 1");
  }

  @Test
  void trainsOnAStandaloneMasterAndWorkers() throws Exception {
    Pattern masterUrl = Pattern.compile("Starting Spark master at (spark://\\S+)");
    Pattern registered = Pattern.compile("Successfully registered with master");
    try (var master =
        Scripts.start(
            masterUrl,
            "spark-class",
            "org.apache.spark.deploy.master.Master",
            "--host",
            "127.0.0.1",
            "--port",
            "0",
            "--webui-port",
            "0")) {
      String url = master.await(SECONDS).group(1);
      try (var one = worker(registered, url);
          var two = worker(registered, url)) {
        one.await(SECONDS);
        two.await(SECONDS);
        try (var script = train(url, "--conf", PATIENCE, "--conf", "spark.driver.host=127.0.0.1")) {
          assertThat(script.exitCode(SECONDS)).as(script.output()).isZero();
        }
      }
    }
    String result = Files.readString(folder.resolve("run/result.json"));
    assertThat(Pattern.compile("\"processId\" : (\\d+)").matcher(result).results())
        .extracting(match -> match.group(1))
        .hasSize(2)
        .doesNotHaveDuplicates();
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

  private Scripts.Running worker(Pattern registered, String url) throws Exception {
    return Scripts.start(
        registered,
        "spark-class",
        "org.apache.spark.deploy.worker.Worker",
        "--host",
        "127.0.0.1",
        "--cores",
        "1",
        "--memory",
        "1g",
        "--webui-port",
        "0",
        "--work-dir",
        folder.resolve("work").toString(),
        url);
  }

  private Scripts.Running train(String master, String... more) throws Exception {
    return train(Map.of(), master, more);
  }

  private Scripts.Running train(Map<String, String> environment, String master, String... more)
      throws Exception {
    String[] arguments = new String[5 + more.length];
    arguments[0] = "train";
    arguments[1] = "--config";
    arguments[2] = config.toString();
    arguments[3] = "--master";
    arguments[4] = master;
    System.arraycopy(more, 0, arguments, 5, more.length);
    return Scripts.start(null, environment, "spark-train", arguments);
  }
}
