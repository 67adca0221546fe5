package io.sparktrainer.data;

import java.util.List;
import java.util.Locale;
import org.apache.spark.sql.DataFrameReader;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.jspecify.annotations.Nullable;

/** Opens the sources that a configuration can name. */
public final class Sources {
  /** The names of all sources. */
  public static final List<String> NAMES =
      List.of(
          "parquet",
          "csv",
          "json",
          "orc",
          "libsvm",
          "avro",
          "images",
          "table",
          "sql",
          "mnist",
          "adult",
          "shakespeare");

  private static final int DEFAULT_CONTEXT = 128;

  private Sources() {}

  /**
   * Opens a source. CSV files are read with a header line and inferred types unless options or
   * schema say otherwise.
   *
   * @throws IllegalArgumentException where the source has no such name, lacks what it needs, or
   *     can't be opened; with what to do
   */
  public static Dataset<Row> read(SparkSession spark, SourceSpec spec) {
    String source = spec.source().toLowerCase(Locale.ROOT);
    try {
      return switch (source) {
        case "parquet", "json", "orc", "libsvm", "avro" ->
            reader(spark, spec).format(source).load(path(spec));
        case "csv" -> csv(spark, spec);
        case "images" -> ImageFolder.read(spark, path(spec));
        case "table" -> spark.table(required(spec, "table", spec.table()));
        case "sql" -> spark.sql(required(spec, "query", spec.query()));
        case "mnist" -> mnist(spark, spec);
        case "adult" -> AdultCensus.read(spark, path(spec));
        case "shakespeare" -> Shakespeare.read(spark, path(spec), context(spec));
        default ->
            throw new IllegalArgumentException(
                "Cannot read source '%s': expected one of %s."
                    .formatted(spec.source(), String.join(", ", NAMES)));
      };
    } catch (IllegalArgumentException e) {
      throw e;
    } catch (Exception e) {
      // Spark's analysis errors are checked exceptions that its Java API doesn't declare
      throw new IllegalArgumentException(
          "Cannot read source '%s': %s%s".formatted(source, firstLine(e), remedy(source, e)), e);
    }
  }

  private static String firstLine(Exception e) {
    return String.valueOf(e.getMessage()).lines().findFirst().orElse("");
  }

  private static String remedy(String source, Exception e) {
    return source.equals("avro") && String.valueOf(e.getMessage()).contains("avro")
        ? " Add org.apache.spark:spark-avro of Spark's version to the class path."
        : "";
  }

  private static DataFrameReader reader(SparkSession spark, SourceSpec spec) {
    DataFrameReader reader = spark.read().options(spec.options());
    return spec.schema() == null ? reader : reader.schema(spec.schema());
  }

  private static Dataset<Row> csv(SparkSession spark, SourceSpec spec) {
    DataFrameReader reader = spark.read().option("header", "true");
    reader =
        spec.schema() == null ? reader.option("inferSchema", "true") : reader.schema(spec.schema());
    return reader.options(spec.options()).format("csv").load(path(spec));
  }

  private static Dataset<Row> mnist(SparkSession spark, SourceSpec spec) {
    String folder = path(spec);
    return Mnist.read(
        spark,
        folder + "/" + option(spec, "images", "mnist-10k-images-idx3-ubyte.gz"),
        folder + "/" + option(spec, "labels", "mnist-10k-labels-idx1-ubyte.gz"));
  }

  private static int context(SourceSpec spec) {
    String context = option(spec, "context", Integer.toString(DEFAULT_CONTEXT));
    try {
      return Integer.parseInt(context);
    } catch (NumberFormatException e) {
      throw new IllegalArgumentException(
          "Cannot read source 'shakespeare': expected a number of characters as context, got '%s'."
              .formatted(context),
          e);
    }
  }

  private static String option(SourceSpec spec, String name, String otherwise) {
    return spec.options().getOrDefault(name, otherwise);
  }

  private static String path(SourceSpec spec) {
    return required(spec, "path", spec.path());
  }

  private static String required(SourceSpec spec, String name, @Nullable String value) {
    if (value == null || value.isBlank()) {
      throw new IllegalArgumentException(
          "Cannot read source '%s': expected '%s', got none.".formatted(spec.source(), name));
    }
    return value;
  }
}
