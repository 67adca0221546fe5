package io.sparktrainer.spark;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.nn.ScriptFiles;
import io.sparktrainer.spark.config.TrainerConfig;
import io.sparktrainer.spark.testing.SparkTest;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A module that PyTorch saved, trained from a configuration. */
@SparkTest(master = "local[2]")
class TestTorchScriptModel {
  @TempDir private Path folder;

  private TrainingResult fit(SparkSession session, Path file, String strategy) {
    TrainerConfig config =
        TrainerConfig.parse(
            """
            device: {type: cpu, parallel: %s}
            data: {features: [a, b, c], label: y}
            model: {type: torchscript, path: '%s'}
            optimizer: {type: adam, lr: 0.05}
            training: {epochs: 6, batch_size: 10, seed: 3}
            metrics: {console: false, jsonl: false}
            output: %s
            """
                .formatted(strategy, file, folder.resolve("run")));
    return new SparkTrainer(config)
        .fit(
            session.sql(
                """
                SELECT a, b, c, int(a > b) AS y
                FROM (SELECT rand(1) AS a, rand(2) AS b, rand(3) AS c FROM range(0, 400, 1, 2))
                """));
  }

  @ParameterizedTest
  @ValueSource(strings = {"{strategy: ddp, workers: 2}", "{strategy: fsdp, workers: 2}"})
  void trains(String strategy, SparkSession session) {
    TrainingResult result = fit(session, ScriptFiles.net(folder), strategy);

    assertThat(result.parameters()).isEqualTo(4 * 3 + 2 * 4 + 2);
    assertThat(result.lastEpoch().accuracy()).isGreaterThan(0.85);
  }

  @Test
  void aFileThatIsNoneIsNamedBeforeTheTraining(SparkSession session) throws Exception {
    Path missing = folder.resolve("missing.pt");
    assertThatThrownBy(() -> fit(session, missing, "{strategy: none}"))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("expected a TorchScript file, got no file")
        .hasMessageContaining("missing.pt");
    Path other = Files.writeString(folder.resolve("other.pt"), "no archive");
    assertThatThrownBy(() -> fit(session, other, "{strategy: none}"))
        .hasMessageContaining("expected a file that torch.jit.save wrote")
        .hasMessageContaining("other.pt");
  }
}
