package io.sparktrainer.spark.barrier;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.spark.resource.CudaGpus;
import io.sparktrainer.spark.resource.DeviceRequest;
import io.sparktrainer.spark.resource.DeviceRequest.Kind;
import io.sparktrainer.spark.testing.DriverStandIns;
import io.sparktrainer.spark.testing.SparkTest;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.SparkSession;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/** What a stage asks of executors that have two GPUs each, and what its tasks get. */
@SparkTest(
    master = "local-cluster[2,2,1024]",
    conf = {
      "spark.worker.resource.gpu.amount=2",
      "spark.worker.resource.gpu.discoveryScript=src/test/resources/gpus/discover-two",
      "spark.executor.resource.gpu.amount=2",
    },
    options = DriverStandIns.class)
class TestGpuResources {
  /** Tells its executor and the addresses of its GPUs. */
  private static final RankProgram<Integer> TELLS =
      (rank, rows) -> SparkEnv.get().executorId() + ":" + String.join("+", addresses());

  private static String[] addresses() {
    var gpu = TaskContext.get().resources().get("gpu");
    return gpu.isDefined() ? gpu.get().addresses() : new String[0];
  }

  @Test
  void aRankPerExecutorGetsTheGpusThatItAsksFor(SparkSession spark) {
    List<String> one = run(spark, 2, Kind.CUDA, 1, null);
    List<String> two = run(spark, 2, Kind.CUDA, 2, null);

    assertThat(one).allMatch(text -> text.matches("[01]:[0-3]"));
    assertThat(executors(one)).doesNotHaveDuplicates();
    assertThat(two).allMatch(text -> text.matches("[01]:(0\\+1|2\\+3|1\\+0|3\\+2)"));
    assertThat(executors(two)).doesNotHaveDuplicates();
  }

  @Test
  void moreRanksThanExecutorsShareThemButNoGpus(SparkSession spark) {
    List<String> ranks = run(spark, 4, Kind.CUDA, 1, 1);

    assertThat(new HashSet<>(executors(ranks))).hasSize(2);
    assertThat(ranks.stream().map(text -> text.split(":", -1)[1]))
        .containsExactlyInAnyOrder("0", "1", "2", "3");
  }

  @Test
  void otherStagesAndRanksOnTheProcessorTakeNoGpus(SparkSession spark) {
    List<Integer> etl = rows(spark, 8).map(row -> addresses().length).collect();

    assertThat(etl).containsOnly(0);
    assertThat(run(spark, 2, Kind.CPU, null, null)).allMatch(text -> text.matches("[01]:"));
    assertThat(run(spark, 4, Kind.CPU, null, null)).allMatch(text -> text.matches("[01]:"));
  }

  @Test
  void tooFewGpusAreSaidAtOnce(SparkSession spark) {
    assertThatThrownBy(() -> run(spark, 4, Kind.CUDA, 2, null))
        .isInstanceOf(StageFailedException.class)
        .hasMessage(
            "Cannot start the training: expected 4 slots, one per rank, got 2 on master local-cluster[2,2,1024] (2 executors of 1 per task with 2 GPUs, which have 4 in all) after waiting 1 s. Set spark.executor.resource.gpu.amount and spark.executor.resource.gpu.discoveryScript (spark-trainer/bin/discover-gpus), start more executors, or use fewer workers (device.parallel.workers).");
  }

  @Test
  void tooFewSlotsAreSaidAtOnce(SparkSession spark) {
    assertThatThrownBy(() -> run(spark, 5, Kind.CPU, null, null))
        .isInstanceOf(StageFailedException.class)
        .hasMessage(
            "Cannot start the training: expected 5 slots, one per rank, got 4 on master local-cluster[2,2,1024] (2 executors of 1 per task) after waiting 1 s. Start more workers, raise spark.cores.max or lower spark.executor.cores, so that 5 executors fit, or use fewer workers (device.parallel.workers).");
    assertThat(StageOptions.builder("").build().slotWaitSeconds()).isLessThan(30);
  }

  private static List<String> executors(List<String> ranks) {
    return ranks.stream().map(text -> text.split(":", -1)[0]).toList();
  }

  private static JavaRDD<Integer> rows(SparkSession spark, int partitions) {
    return JavaSparkContext.fromSparkContext(spark.sparkContext())
        .parallelize(Collections.nCopies(partitions, 1), partitions);
  }

  private static List<String> run(
      SparkSession spark, int workers, Kind kind, @Nullable Integer gpus, @Nullable Integer cpus) {
    StageOptions options =
        StageOptions.builder("test")
            .device(new DeviceRequest(kind, null), new CudaGpus())
            .resources(new RankResources(gpus, cpus))
            .slotWaitSeconds(executorsAreThere(spark) ? 1 : 120)
            .build();
    return BarrierStage.run(rows(spark, workers), TELLS, options);
  }

  private static boolean executorsAreThere(SparkSession spark) {
    return Arrays.stream(spark.sparkContext().statusTracker().getExecutorInfos()).count() >= 3;
  }
}
