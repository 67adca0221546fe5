package io.sparktrainer.examples;

import io.sparktrainer.spark.SparkTrainer;
import io.sparktrainer.spark.config.TrainerConfig;
import org.apache.spark.sql.SparkSession;

/** Learns, from rows that Spark SQL makes, on which side of a circle a point lies. */
public final class TrainFromSql {
  private TrainFromSql() {}

  public static void main(String[] arguments) {
    SparkSession spark = SparkSession.builder().getOrCreate();
    var points =
        spark.sql(
            """
            SELECT x, y, CAST(x * x + y * y < 0.5 AS INT) AS inside
            FROM (SELECT 2 * rand(1) - 1 AS x, 2 * rand(2) - 1 AS y FROM range(20000))
            """);
    TrainerConfig config =
        TrainerConfig.parse(
            """
            device: {parallel: {strategy: ddp, workers: 2}}
            data: {features: [x, y], label: inside, validation: 0.1}
            model: {type: mlp, hidden: [32, 32]}
            optimizer: {type: adamw, lr: 0.01}
            training: {epochs: 5, batch_size: 64}
            output: run/from-sql
            """);
    var result = new SparkTrainer(config).fit(points);
    System.out.println("test accuracy " + result.lastEpoch().evalAccuracy());
  }
}
