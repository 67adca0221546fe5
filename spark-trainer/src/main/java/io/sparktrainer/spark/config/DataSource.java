package io.sparktrainer.spark.config;

import static java.util.Objects.requireNonNull;

import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Where a configuration finds its DataFrame.
 *
 * @param format one of {@link io.sparktrainer.data.Sources#NAMES}, or any other format that Spark's
 *     reader knows, such as {@code delta}
 * @param path folder or file; for {@code table} the table's name, for {@code sql} the query
 * @param options options of Spark's reader, or of the source
 */
public record DataSource(String format, String path, Map<String, String> options) {
  /** A table or view of the session. */
  public static final String TABLE = "table";

  /** The result of a query. */
  public static final String SQL = "sql";

  public DataSource {
    requireNonNull(format, "format");
    requireNonNull(path, "path");
    options = Collections.unmodifiableMap(new LinkedHashMap<>(options));
  }

  /** The key that says where the data is. */
  static String placeKey(String format) {
    return switch (format) {
      case TABLE -> "table";
      case SQL -> "query";
      default -> "path";
    };
  }

  public DataSource(String format, String path) {
    this(format, path, Map.of());
  }
}
