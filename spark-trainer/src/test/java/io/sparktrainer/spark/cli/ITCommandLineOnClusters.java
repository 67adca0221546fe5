package io.sparktrainer.spark.cli;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Files;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

/** The packaged command on ranks that are processes, without an installation of Spark. */
class ITCommandLineOnClusters extends CommandLine {
  private static final String PATIENCE = "spark.sparktrainer.slotWaitSeconds=120";

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
}
