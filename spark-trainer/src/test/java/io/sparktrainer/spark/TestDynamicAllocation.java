package io.sparktrainer.spark;

import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.spark.barrier.StageFailedException;
import io.sparktrainer.spark.testing.Frames;
import io.sparktrainer.spark.testing.SparkTest;
import java.nio.file.Path;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Spark itself would let a local master pass, and surprise whoever moves to a cluster. */
@SparkTest(master = "local[2]", conf = "spark.dynamicAllocation.enabled=true")
class TestDynamicAllocation {
  @TempDir Path folder;

  @Test
  void isRefusedOnEveryMaster(SparkSession spark) {
    assertThatThrownBy(
            () -> new SparkTrainer(Configs.ddp(2, folder).build()).fit(Frames.halves(spark, 20)))
        .isInstanceOf(StageFailedException.class)
        .hasMessage(
            "Cannot start the training: expected a fixed set of executors, got spark.dynamicAllocation.enabled=true. A barrier stage needs all its slots at once; set spark.dynamicAllocation.enabled=false and spark.executor.instances.");
  }
}
