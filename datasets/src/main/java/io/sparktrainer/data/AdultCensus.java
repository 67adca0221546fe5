package io.sparktrainer.data;

import static org.apache.spark.sql.functions.col;
import static org.apache.spark.sql.functions.lit;
import static org.apache.spark.sql.functions.regexp_replace;
import static org.apache.spark.sql.functions.trim;
import static org.apache.spark.sql.functions.when;

import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;

/**
 * The Adult census income data (Becker and Kohavi 1996, UCI Machine Learning Repository) in the
 * form in which it is found: a CSV file with spaces after its commas, {@code ?} for missing values,
 * and the label spelled {@code <=50K} or {@code <=50K.}.
 */
public final class AdultCensus {
  /** Columns of numbers, {@code int} in {@link #read}. */
  public static final List<String> NUMBERS =
      List.of("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week");

  /** Columns of categories, {@code string} in {@link #read}. */
  public static final List<String> CATEGORIES =
      List.of(
          "workclass",
          "education",
          "marital-status",
          "occupation",
          "relationship",
          "race",
          "sex",
          "native-country");

  private AdultCensus() {}

  /** The file as found: all columns strings with their spaces, named without them. */
  public static Dataset<Row> raw(SparkSession spark, String path) {
    Dataset<Row> file = spark.read().option("header", "true").csv(path);
    Column[] named = new Column[file.columns().length];
    for (int i = 0; i < named.length; i++) {
      String name = file.columns()[i];
      named[i] = col("`" + name + "`").as(name.strip());
    }
    return file.select(named);
  }

  /**
   * The file put in order: no spaces, null for {@code ?}, and {@code label} 1 for an income above
   * 50 thousand dollars, else 0 ({@code int}).
   *
   * @throws IllegalArgumentException where the file lacks a column
   */
  public static Dataset<Row> read(SparkSession spark, String path) {
    Dataset<Row> raw = raw(spark, path);
    List<String> present = List.of(raw.columns());
    Column[] columns = new Column[NUMBERS.size() + CATEGORIES.size() + 1];
    int at = 0;
    for (String name : NUMBERS) {
      columns[at++] = value(name, present, path).cast("int").as(name);
    }
    for (String name : CATEGORIES) {
      columns[at++] = value(name, present, path).as(name);
    }
    Column income = regexp_replace(value("income", present, path), "\\.$", "");
    columns[at] = income.equalTo(">50K").cast("int").as("label");
    return raw.select(columns);
  }

  private static Column value(String name, List<String> present, String path) {
    if (!present.contains(name)) {
      throw new IllegalArgumentException(
          "Cannot read %s: expected a column '%s', got %s."
              .formatted(path, name, String.join(", ", present)));
    }
    Column trimmed = trim(col("`" + name + "`"));
    return when(trimmed.equalTo("?"), lit(null)).otherwise(trimmed);
  }
}
