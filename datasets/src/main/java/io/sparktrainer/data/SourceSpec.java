package io.sparktrainer.data;

import static java.util.Objects.requireNonNull;

import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Where a DataFrame comes from, as a configuration names it.
 *
 * @param source one of {@link Sources#NAMES}
 * @param path file or folder on any file system that Spark knows; for {@code images} the folder
 *     that holds one folder of images per class; null for table and sql
 * @param table name of a table or view, for {@code table}
 * @param query a SELECT statement, for {@code sql}
 * @param schema columns as DDL, or null to infer them
 * @param options options of Spark's reader, such as {@code header} and {@code sep}; for {@code
 *     mnist} {@code images} and {@code labels} name the files within the folder; for {@code
 *     shakespeare} {@code context} is the number of characters per row
 */
public record SourceSpec(
    String source,
    @Nullable String path,
    @Nullable String table,
    @Nullable String query,
    @Nullable String schema,
    Map<String, String> options) {
  public SourceSpec {
    requireNonNull(source, "source");
    options = Map.copyOf(options);
  }

  /** A source of files. */
  public static SourceSpec ofPath(String source, String path) {
    return new SourceSpec(source, path, null, null, null, Map.of());
  }

  /** A table or view of the session. */
  public static SourceSpec ofTable(String table) {
    return new SourceSpec("table", null, table, null, null, Map.of());
  }

  /** The result of a query. */
  public static SourceSpec ofSql(String query) {
    return new SourceSpec("sql", null, null, query, null, Map.of());
  }

  /** The same with these options of the reader. */
  public SourceSpec withOptions(Map<String, String> newOptions) {
    return new SourceSpec(source, path, table, query, schema, newOptions);
  }

  /** The same with columns as DDL, such as {@code "x float, y int"}. */
  public SourceSpec withSchema(String newSchema) {
    return new SourceSpec(source, path, table, query, newSchema, options);
  }
}
