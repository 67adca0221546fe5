package io.sparktrainer.spark;

import static org.assertj.core.api.Assertions.assertThat;

import io.sparktrainer.checkpoint.Safetensors;
import io.sparktrainer.spark.config.TrainerConfig;
import io.sparktrainer.spark.testing.Frames;
import io.sparktrainer.spark.testing.SparkTest;
import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.strategy.FsdpOptions;
import io.sparktrainer.strategy.StrategySpec;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Ranks as threads of one JVM. */
@SparkTest(master = "local[2]")
class TestTrainingLocally {
  @TempDir Path folder;

  @Test
  void twoRanksLearnAndLeaveARunFolder(SparkSession spark) throws Exception {
    TrainerConfig config = Configs.ddp(2, folder).build();

    TrainingResult result = new SparkTrainer(config).fit(Frames.halves(spark, 400));

    assertThat(result.epochs()).hasSize(3);
    assertThat(result.lastEpoch().loss()).isLessThan(result.epochs().get(0).loss());
    assertThat(result.lastEpoch().evalAccuracy()).isGreaterThan(0.9);
    assertThat(result.ranks()).extracting(TrainingResult.Participant::rank).containsExactly(0, 1);
    assertThat(result.parameters()).isEqualTo((2 + 1) * 16 + (16 + 1) * 2);
    assertThat(folder.toFile().list())
        .containsExactlyInAnyOrder(
            "config.yaml", "metrics.jsonl", "model.safetensors", "result.json");
    assertThat(TrainerConfig.read(folder.resolve("config.yaml"))).isEqualTo(config);
    List<String> lines = Files.readAllLines(folder.resolve("metrics.jsonl"));
    assertThat(lines).filteredOn(line -> line.contains("\"type\":\"epoch\"")).hasSize(3);
    assertThat(lines)
        .filteredOn(line -> line.contains("\"type\":\"step\"") && line.contains("\"rank\":1"))
        .hasSizeGreaterThan(20);
    try (var scope = NativeScope.open()) {
      var tensors = Safetensors.read(folder.resolve("model.safetensors"));
      assertThat(tensors.keySet())
          .containsExactlyInAnyOrder("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias");
      assertThat(Tensors.shape(tensors.get("fc1.weight"))).containsExactly(16, 2);
    }
  }

  @Test
  void autoIsResolvedBeforeTheRanksStart(SparkSession spark) throws Exception {
    TrainerConfig config =
        Configs.ddp(2, folder)
            .strategy(new StrategySpec.Auto(2, DdpOptions.defaults(), FsdpOptions.defaults()))
            .build();

    TrainingResult result = new SparkTrainer(config).fit(Frames.halves(spark, 400));

    assertThat(result.strategy()).isEqualTo("none");
    assertThat(result.ranks()).hasSize(1);
    assertThat(result.strategyReason())
        .startsWith("under 1 billion parameters? yes (82 parameters), fits one device? yes (")
        .endsWith(": chosen");
    String yaml = Files.readString(folder.resolve("config.yaml"));
    assertThat(yaml).startsWith("# strategy auto: " + result.strategyReason());
    assertThat(TrainerConfig.parse(yaml)).isEqualTo(config.withStrategy(new StrategySpec.None(0)));
    assertThat(Files.readString(folder.resolve("result.json")))
        .contains("\"strategyReason\" : \"" + result.strategyReason());
  }
}
