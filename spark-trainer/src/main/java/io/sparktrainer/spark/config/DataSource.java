package io.sparktrainer.spark.config;

import static java.util.Objects.requireNonNull;

import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Where a configuration finds its DataFrame.
 *
 * @param format {@code mnist} (a folder or file prefix of IDX files), {@code table} (a table of the
 *     session), or any format that Spark's reader knows, such as {@code parquet} or {@code csv}
 * @param path folder, file or table name
 * @param options options of Spark's reader
 */
public record DataSource(String format, String path, Map<String, String> options) {
  public DataSource {
    requireNonNull(format, "format");
    requireNonNull(path, "path");
    options = Collections.unmodifiableMap(new LinkedHashMap<>(options));
  }

  public DataSource(String format, String path) {
    this(format, path, Map.of());
  }
}
