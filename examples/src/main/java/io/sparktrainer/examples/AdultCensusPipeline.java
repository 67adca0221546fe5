package io.sparktrainer.examples;

import io.sparktrainer.spark.SparkTrainer;
import io.sparktrainer.spark.TrainingResult;
import io.sparktrainer.spark.config.TrainerConfig;
import java.util.Locale;
import org.apache.spark.ml.feature.StringIndexer;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;

/**
 * From a CSV file as it is found to a tested model, in one Spark application: who earns more than
 * 50 thousand dollars a year (Adult census income, UCI).
 *
 * <p>The file has spaces after commas, {@code ?} for what nobody knows, an empty line, and two
 * spellings of the label: those of the 1996 test half end in a dot. That half is the test set here,
 * too. Arguments set keys of the configuration, as in {@code training.epochs=2}.
 */
public final class AdultCensusPipeline {
  private static final String[] CATEGORIES = {
    "workclass",
    "education",
    "marital",
    "occupation",
    "relationship",
    "race",
    "sex",
    "country",
    // A few hundred sums come up again and again, and mean more than their size.
    "gain",
    "loss"
  };

  private AdultCensusPipeline() {}

  public static void main(String[] arguments) {
    SparkSession spark = SparkSession.builder().appName("adult census").getOrCreate();
    TrainingResult result = run(spark, "examples/data/adult-census.csv.gz", arguments);
    System.out.printf(Locale.ROOT, "test accuracy %.4f%n", result.lastEpoch().evalAccuracy());
    spark.stop();
  }

  static TrainingResult run(SparkSession spark, String file, String... overrides) {
    Dataset<Row> people = clean(spark, file);
    String[] numbered = new String[CATEGORIES.length];
    for (int i = 0; i < numbered.length; i++) {
      numbered[i] = CATEGORIES[i] + "_id";
    }
    // Numbers are given by the training rows alone; what only test rows have gets the number after.
    Dataset<Row> indexed =
        new StringIndexer()
            .setInputCols(CATEGORIES)
            .setOutputCols(numbered)
            .setHandleInvalid("keep")
            .fit(people.filter("NOT is_test"))
            .transform(people);
    TrainerConfig config =
        TrainerConfig.parse(
            """
            device: {parallel: {strategy: ddp, workers: 2}}
            data:
              inputs:
                numbers: [age, education_years, capital_gain, capital_loss, hours]
                categories: [%s]
              label: label
              validation: {column: is_test}
              seed: 1
            model: {type: tabular, hidden: [64, 32], embeddings: auto, dropout: 0.1}
            optimizer: {type: adamw, lr: 0.003, weight_decay: 0.01}
            schedule: {type: cosine, warmup_steps: 50}
            training: {epochs: 5, batch_size: 128, seed: 1}
            output: run/adult-census
            """
                .formatted(String.join(", ", numbered)),
            overrides);
    return new SparkTrainer(config).fit(indexed);
  }

  private static Dataset<Row> clean(SparkSession spark, String file) {
    spark
        .read()
        .option("header", true)
        .option("ignoreLeadingWhiteSpace", true)
        .option("ignoreTrailingWhiteSpace", true)
        .option("nullValue", "?")
        .csv(file)
        .createOrReplaceTempView("found");
    return spark.sql(
        """
        SELECT
          INT(age) AS age,
          INT(`education-num`) AS education_years,
          ln(1 + INT(`capital-gain`)) AS capital_gain,
          ln(1 + INT(`capital-loss`)) AS capital_loss,
          INT(`hours-per-week`) AS hours,
          `capital-gain` AS gain,
          `capital-loss` AS loss,
          coalesce(workclass, 'unknown') AS workclass,
          education,
          `marital-status` AS marital,
          coalesce(occupation, 'unknown') AS occupation,
          relationship,
          race,
          sex,
          coalesce(`native-country`, 'unknown') AS country,
          INT(rtrim('.', income) = '>50K') AS label,
          income LIKE '%.' AS is_test
        FROM found
        WHERE income IS NOT NULL
        """);
  }
}
