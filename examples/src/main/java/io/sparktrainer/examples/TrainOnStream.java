package io.sparktrainer.examples;

import io.sparktrainer.spark.SparkTrainer;
import io.sparktrainer.spark.TrainingResult;
import io.sparktrainer.spark.config.TrainerConfig;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.Trigger;

/**
 * Trains on a stream: each micro-batch goes on from the model that the one before left behind.
 *
 * <p>The stream here is a folder of Parquet files that is read one file at a time; any source of
 * Structured Streaming does. Each micro-batch is an ordinary DataFrame, so it is checked, shared
 * out and trained on like any other. The optimizer starts anew with each, only weights go on.
 */
public final class TrainOnStream {
  private TrainOnStream() {}

  public static void main(String[] arguments) throws Exception {
    SparkSession spark = SparkSession.builder().appName("stream").getOrCreate();
    Path folder = Files.createTempDirectory("stream");
    arrive(spark, folder, 6);
    List<TrainingResult> results = run(spark, folder, "run/stream");
    for (TrainingResult result : results) {
      System.out.printf(
          Locale.ROOT,
          "%,d rows: test accuracy %.4f%n",
          result.lastEpoch().rows(),
          result.lastEpoch().evalAccuracy());
    }
    spark.stop();
  }

  /** Files of points in a plane, and on which side of a circle they lie. */
  static void arrive(SparkSession spark, Path folder, int files) {
    for (int file = 0; file < files; file++) {
      spark
          .sql(
              """
              SELECT x, y, INT(x * x + y * y < 0.5) AS inside
              FROM (SELECT 2 * rand(%d) - 1 AS x, 2 * rand(%d) - 1 AS y FROM range(0, 3000, 1, 2))
              """
                  .formatted(2 * file, 2 * file + 1))
          .coalesce(1)
          .write()
          .mode("append")
          .parquet(folder.toString());
    }
  }

  /** Trains on all files that have arrived, one micro-batch per file. */
  static List<TrainingResult> run(SparkSession spark, Path folder, String output) throws Exception {
    TrainerConfig config =
        TrainerConfig.parse(
            """
            device: {parallel: {strategy: ddp, workers: 2}}
            data: {features: [x, y], label: inside, validation: 0.2}
            model: {type: mlp, hidden: [32, 32]}
            optimizer: {type: adamw, lr: 0.01}
            training: {epochs: 1, batch_size: 64}
            metrics: {console: false}
            """,
            "output=" + output);
    List<TrainingResult> results = new ArrayList<>();
    var query =
        spark
            .readStream()
            .schema("x double, y double, inside int")
            .option("maxFilesPerTrigger", 1)
            .parquet(folder.toString())
            .writeStream()
            .trigger(Trigger.AvailableNow())
            .option("checkpointLocation", output + "/stream")
            .foreachBatch(
                (Dataset<Row> rows, Long batch) -> {
                  // A stream that starts again finds the model of its last run here.
                  Path last = Path.of(output, "model.safetensors");
                  results.add(
                      new SparkTrainer(config.withInit(Files.exists(last) ? output : null))
                          .fit(rows));
                })
            .start();
    query.awaitTermination();
    return results;
  }
}
