package io.sparktrainer.spark;

import static org.apache.spark.sql.functions.col;
import static org.apache.spark.sql.functions.lit;
import static org.apache.spark.sql.functions.when;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import io.sparktrainer.nn.Losses;
import io.sparktrainer.spark.barrier.StageFailedException;
import io.sparktrainer.spark.config.DataConfig;
import io.sparktrainer.spark.config.DeviceConfig;
import io.sparktrainer.spark.config.DeviceResources;
import io.sparktrainer.spark.config.DeviceType;
import io.sparktrainer.spark.config.ModelSpec;
import io.sparktrainer.spark.config.TrainerConfig;
import io.sparktrainer.spark.testing.Frames;
import io.sparktrainer.spark.testing.SparkTest;
import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.strategy.StrategySpec;
import io.sparktrainer.torch.CudaDevices;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkConf;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Each bad input is one clear error, and the same Spark application trains afterwards. */
@SparkTest(master = "local[2]")
@Timeout(value = 120, unit = TimeUnit.SECONDS)
class TestBadInput {
  @TempDir Path folder;
  private SparkSession spark;
  private Dataset<Row> rows;

  @BeforeEach
  void open(SparkSession session) {
    spark = session;
    rows = Frames.halves(session, 40);
  }

  @AfterEach
  void theApplicationStaysUsable() {
    assertThat(spark.sparkContext().isStopped()).isFalse();
    assertThat(spark.range(10).count()).isEqualTo(10);
  }

  @Test
  void aMissingColumn() {
    DataConfig data = DataConfig.builder().features("x1", "x3").label("label").build();

    assertThatThrownBy(() -> fit(config().data(data), rows))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("'x3'")
        .hasMessageContaining("no such column")
        .hasMessageContaining("x1, x2, label");
  }

  @Test
  void aNullInAFeature() {
    Dataset<Row> withNull =
        rows.withColumn("x2", when(col("x1").gt(0.9), lit(null)).otherwise(col("x2")));

    assertThatThrownBy(() -> fit(config(), withNull))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("'x2'")
        .hasMessageContaining("null");
  }

  @Test
  void aTextAsLabel() {
    Dataset<Row> withText = rows.withColumn("label", lit("yes"));

    assertThatThrownBy(() -> fit(config(), withText))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("'label'")
        .hasMessageContaining("StringIndexer");
  }

  @Test
  void noRows() {
    assertThatThrownBy(() -> fit(config(), rows.filter("x1 > 5")))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("expected training rows, got 0");
  }

  @Test
  void fewerRowsThanRanks() {
    DataConfig data = DataConfig.builder().features("x1", "x2").label("label").build();

    assertThatThrownBy(() -> fit(config().data(data), rows.limit(1)))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("Cannot train on 2 ranks")
        .hasMessageContaining("got 1 rows");
  }

  @Test
  void moreRanksThanSlots() {
    assertThatThrownBy(() -> fit(Configs.ddp(3, folder), rows))
        .isInstanceOf(StageFailedException.class)
        .hasMessage(
            "Cannot start the training: expected 3 slots, one per rank, got 2 on master local[2] (0 executors of 1 per task). Use --master local[3] or fewer workers.");
  }

  @Test
  void gpusWhereThereAreNone() {
    assumeFalse(CudaDevices.usable(), "skipped: this machine has GPUs that can be used");
    DeviceConfig device =
        DeviceConfig.builder()
            .type(DeviceType.CUDA)
            .strategy(new StrategySpec.Ddp(2, DdpOptions.defaults()))
            .build();

    assertThatThrownBy(() -> fit(config().device(device), rows))
        .isInstanceOf(StageFailedException.class)
        .hasMessageContaining(
            "Cannot start training on GPUs: expected one that it can use for each of 2 ranks, got none for 2 of them: rank 0 on host ")
        .hasMessageContaining(" has none: " + CudaDevices.whyUnusable());
  }

  @Test
  void resourcesOfALocalMaster() {
    DeviceConfig device = DeviceConfig.builder().resources(new DeviceResources(1, null)).build();

    assertThatThrownBy(() -> fit(config().device(device), rows))
        .isInstanceOf(StageFailedException.class)
        .hasMessage(
            "Cannot start the training: expected a cluster for device.resources, got master local[2], which gives tasks no resources. Take device.resources out; each rank takes the GPU of its place.");
  }

  /** Spark itself would let a local master pass, and surprise whoever moves to a cluster. */
  @Test
  void dynamicAllocation() {
    SparkConf conf = spark.sparkContext().conf();
    conf.set("spark.dynamicAllocation.enabled", "true");
    try {
      assertThatThrownBy(() -> fit(config(), rows))
          .isInstanceOf(StageFailedException.class)
          .hasMessage(
              "Cannot start the training: expected a fixed set of executors, got spark.dynamicAllocation.enabled=true. A barrier stage needs all its slots at once; set spark.dynamicAllocation.enabled=false and spark.executor.instances.");
    } finally {
      conf.set("spark.dynamicAllocation.enabled", "false");
    }
  }

  @Test
  void aRunFolderThatCannotBeWritten() throws Exception {
    Path file = Files.writeString(folder.resolve("file"), "in the way");

    assertThatThrownBy(() -> fit(config().output(file.resolve("run").toString()), rows))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("Cannot write the run folder " + file.resolve("run"))
        .hasMessageContaining("Set output to a folder that can be written.");
    assertThatThrownBy(() -> fit(config().output("nosuchscheme://host/run"), rows))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("Cannot write the run folder nosuchscheme://host/run");
  }

  @Test
  void aModelThatCannotFit() {
    assertThatThrownBy(() -> fit(config().model(new ModelSpec.Mlp(2_000_000, 2_000_000)), rows))
        .isInstanceOf(StageFailedException.class)
        .hasMessageContaining("Cannot train the model: expected at most ")
        .hasMessageContaining("for 2 ranks of 74506.0 GiB each")
        .hasMessageContaining("Make the model smaller");
  }

  @Test
  void labelsThatAreNoClasses() {
    Dataset<Row> negative = rows.withColumn("label", col("label").minus(1));

    assertThatThrownBy(() -> fit(config(), negative))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("expected classes 0, 1, 2, ..., got values from -1 to 0");
  }

  @Test
  void moreClassesThanOutputs() {
    assertThatThrownBy(
            () ->
                fit(
                    config()
                        .model(new ModelSpec.Mlp(java.util.List.of(4), 1))
                        .loss(Losses.CROSS_ENTROPY),
                    rows))
        .isInstanceOf(StageFailedException.class)
        .hasMessageContaining("of 2 failed on host")
        .hasMessageContaining("out of bounds");
  }

  @Test
  void aCnnOnRowsThatAreNoImages() {
    assertThatThrownBy(() -> fit(config().model(new ModelSpec.Cnn()), rows))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("expected rows of shape [channels, height, width], got [2]")
        .hasMessageContaining("Set data.shape");
  }

  @Test
  void aModelClassThatIsNone() {
    assertThatThrownBy(
            () -> fit(config().model(new ModelSpec.OfClass("com.acme.Missing", null)), rows))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("Cannot make model com.acme.Missing")
        .hasMessageContaining("--jars");
    assertThatThrownBy(() -> fit(config().model(new ModelSpec.OfClass(String.class)), rows))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("expected a public class that extends io.sparktrainer.nn.Block");
  }

  @Test
  void noSourceInTheConfiguration() {
    assertThatThrownBy(() -> new SparkTrainer(config().build()).fit(spark))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("expected data.source and data.path");
  }

  private TrainerConfig.Builder config() {
    return Configs.ddp(2, folder);
  }

  private void fit(TrainerConfig.Builder config, Dataset<Row> frame) {
    TrainingResult unused = new SparkTrainer(config.build()).fit(frame);
  }
}
