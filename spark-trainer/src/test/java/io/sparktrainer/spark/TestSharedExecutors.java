package io.sparktrainer.spark;

import static org.assertj.core.api.Assertions.assertThat;

import io.sparktrainer.spark.testing.Frames;
import io.sparktrainer.spark.testing.SparkTest;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * Executors with room for two ranks each; as in TestGpuResources, whose Spark session it shares.
 */
@SparkTest(
    master = "local-cluster[2,2,1024]",
    conf = {
      "spark.worker.resource.gpu.amount=2",
      "spark.worker.resource.gpu.discoveryScript=src/test/resources/gpus/discover-two",
      "spark.executor.resource.gpu.amount=2",
    })
@Timeout(value = 300, unit = TimeUnit.SECONDS)
class TestSharedExecutors {
  @TempDir Path folder;

  @Test
  void twoRanksOfAnExecutorTrainLikeAnyOthers(SparkSession spark) {
    TrainingResult result = fit(spark, 4);

    assertThat(result.ranks()).hasSize(4);
    assertThat(new HashSet<>(processes(result))).hasSize(2);
    assertThat(result.ranks()).extracting(TrainingResult.Participant::threads).containsOnly(1);
    assertThat(result.lastEpoch().loss()).isLessThan(result.epochs().get(0).loss());
  }

  private static List<Long> processes(TrainingResult result) {
    return result.ranks().stream().map(TrainingResult.Participant::processId).toList();
  }

  private TrainingResult fit(SparkSession spark, int workers) {
    return new SparkTrainer(Configs.ddp(workers, folder).build()).fit(Frames.halves(spark, 200));
  }
}
