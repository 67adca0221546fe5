package io.sparktrainer.spark;

import io.sparktrainer.data.SourceSpec;
import io.sparktrainer.data.Sources;
import io.sparktrainer.spark.config.DataSource;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;

/** Opens the DataFrame that a configuration names. */
final class DataFrames {
  private DataFrames() {}

  /**
   * Reads one of {@link Sources#NAMES}, or any other format that the session's Spark knows, such as
   * {@code delta}.
   *
   * @throws IllegalArgumentException if there is no such data
   */
  static Dataset<Row> read(SparkSession session, DataSource source) {
    if (Sources.NAMES.contains(source.format())) {
      return Sources.read(session, spec(source));
    }
    try {
      return session.read().format(source.format()).options(source.options()).load(source.path());
    } catch (Exception e) {
      // Spark's analysis errors are checked exceptions that its Java API doesn't declare
      throw new IllegalArgumentException(
          "Cannot read data.source %s from %s: %s"
              .formatted(source.format(), source.path(), firstLine(e)),
          e);
    }
  }

  private static SourceSpec spec(DataSource source) {
    return switch (source.format()) {
      case DataSource.TABLE -> SourceSpec.ofTable(source.path());
      case DataSource.SQL -> SourceSpec.ofSql(source.path());
      default -> SourceSpec.ofPath(source.format(), source.path()).withOptions(source.options());
    };
  }

  private static String firstLine(Exception e) {
    return String.valueOf(e.getMessage()).lines().findFirst().orElse(e.toString());
  }
}
