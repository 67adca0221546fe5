package io.sparktrainer.spark.cli;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.io.TempDir;

/** A configuration with data in a folder, and the packaged command to train it. */
abstract class CommandLine {
  static final int SECONDS = 240;

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

  final Scripts.Running train(String master, String... more) throws Exception {
    return train(Map.of(), master, more);
  }

  final Scripts.Running train(Map<String, String> environment, String master, String... more)
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
