package io.sparktrainer.spark;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import io.sparktrainer.spark.barrier.StageFailedException;
import io.sparktrainer.spark.config.TrainerConfig;
import io.sparktrainer.spark.testing.Frames;
import io.sparktrainer.spark.testing.SparkTest;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** {@code model.init}: a training that goes on from the weights of another. */
@SparkTest(master = "local[2]")
class TestInitialWeights {
  private static final String FEATURES =
      "data: {features: [x1, x2], label: label, validation: 0.2, seed: 7}\n";

  @TempDir Path folder;

  private TrainerConfig config(String parallel, String output, int seed, String lr, String... set) {
    return TrainerConfig.parse(
        FEATURES
            + """
            device: {parallel: %s}
            model: {type: mlp, hidden: [6]}
            optimizer: {type: adam, lr: %s}
            training: {epochs: 1, batch_size: 16, seed: %d}
            metrics: {console: false, jsonl: false}
            output: %s
            """
                .formatted(parallel, lr, seed, folder.resolve(output)),
        set);
  }

  @Test
  void everyStrategyStartsFromTheWeightsOfAnother(SparkSession spark) throws Exception {
    var rows = Frames.halves(spark, 200).cache();
    TrainingResult first =
        new SparkTrainer(config("{strategy: none}", "first", 1, "0.05")).fit(rows);
    byte[] weights = Files.readAllBytes(Path.of(first.modelPath()));
    for (String parallel :
        new String[] {
          "{strategy: dp, replicas: 2}",
          "{strategy: ddp, workers: 2}",
          "{strategy: fsdp, workers: 2}"
        }) {
      // Nothing is learnt at a rate of 0, so what is written is what was read.
      TrainerConfig again = config(parallel, "again", 2, "0").withInit(first.runFolder());
      TrainingResult result = new SparkTrainer(again).fit(rows);

      assertThat(result.lastEpoch().evalLoss())
          .as(parallel)
          .isCloseTo(first.lastEpoch().evalLoss(), within(1e-6));
      assertThat(Files.readAllBytes(Path.of(result.modelPath()))).as(parallel).isEqualTo(weights);
    }
    TrainerConfig wider =
        config("{strategy: ddp, workers: 2}", "wider", 2, "0", "model.hidden=[7, 7]")
            .withInit(first.modelPath());
    assertThatThrownBy(() -> new SparkTrainer(wider).fit(rows))
        .isInstanceOf(StageFailedException.class)
        .hasMessageContaining("Cannot start from ")
        .hasMessageContaining(
            "first/model.safetensors: expected the tensors of this model, got a file without fc3.weight [2, 7], fc3.bias [2]; with fc1.weight [6, 2] instead of [7, 2], fc1.bias [6] instead of [7], fc2.weight [2, 6] instead of [7, 7], fc2.bias [2] instead of [7]. Give the model the sizes that it was trained with, or take model.init out.");
    assertThatThrownBy(
            () -> new SparkTrainer(wider.withInit(folder.resolve("nowhere").toString())).fit(rows))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("Cannot start from model.init " + folder.resolve("nowhere"))
        .hasMessageContaining("expected a safetensors file, or a run folder");
  }
}
