package io.sparktrainer.spark;

import static org.apache.spark.sql.functions.max;
import static org.apache.spark.sql.functions.min;

import io.sparktrainer.data.MissingValues;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;

/** Smallest and largest values of columns that number something, found in one pass. */
final class ColumnRanges {
  private record Range(double smallest, double largest) {
    Range and(double other) {
      return new Range(Math.min(smallest, other), Math.max(largest, other));
    }
  }

  private final Map<String, Range> ranges = new LinkedHashMap<>();
  private final MissingValues nulls;

  /**
   * @param nulls what reading makes of nulls: they may be filled with a number of their own
   */
  ColumnRanges(MissingValues nulls) {
    this.nulls = nulls;
  }

  /** Asks for a column's range. */
  void add(String column) {
    ranges.put(column, new Range(Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY));
  }

  /**
   * Reads the columns, if there are any, in one job per DataFrame.
   *
   * @throws IllegalArgumentException if there are no rows
   */
  void read(List<Dataset<Row>> frames) {
    if (ranges.isEmpty()) {
      return;
    }
    for (Dataset<Row> frame : frames) {
      List<Column> wanted = new ArrayList<>();
      for (String column : ranges.keySet()) {
        Column value = frame.col("`" + column.replace("`", "``") + "`").cast("double");
        wanted.add(min(value));
        wanted.add(max(value));
      }
      Row found =
          frame.agg(wanted.get(0), wanted.subList(1, wanted.size()).toArray(Column[]::new)).head();
      int at = 0;
      for (Map.Entry<String, Range> entry : ranges.entrySet()) {
        if (!found.isNullAt(at)) {
          entry.setValue(entry.getValue().and(found.getDouble(at)).and(found.getDouble(at + 1)));
        }
        at += 2;
      }
    }
    for (Map.Entry<String, Range> entry : ranges.entrySet()) {
      if (nulls instanceof MissingValues.Fill fill) {
        entry.setValue(entry.getValue().and(fill.value()));
      }
      if (entry.getValue().smallest() > entry.getValue().largest()) {
        throw new IllegalArgumentException(
            "Cannot train: expected training rows with a value in column '%s', got 0. Check the DataFrame's filters."
                .formatted(entry.getKey()));
      }
    }
  }

  /**
   * Classes 0 to the largest label.
   *
   * @throws IllegalArgumentException if labels are below 0 or too large
   */
  int classes(String label) {
    return count(label, "label of cross_entropy", "classes", "Number the classes");
  }

  /**
   * Categories 0 to the largest.
   *
   * @throws IllegalArgumentException if numbers are below 0 or too large
   */
  int categories(String column) {
    return count(column, "categories", "numbers", "Number the categories");
  }

  private int count(String column, String use, String what, String remedy) {
    Range range = ranges.get(column);
    if (range == null) {
      throw new IllegalStateException("Nobody has asked for column '" + column + "'.");
    }
    if (range.smallest() < 0 || range.largest() > Integer.MAX_VALUE - 1) {
      throw new IllegalArgumentException(
          "Cannot use column '%s' as %s: expected %s 0, 1, 2, ..., got values from %s to %s. %s, for example with StringIndexer."
              .formatted(
                  column, use, what, number(range.smallest()), number(range.largest()), remedy));
    }
    return (int) range.largest() + 1;
  }

  private static String number(double value) {
    return value == Math.rint(value) ? String.valueOf((long) value) : String.valueOf(value);
  }
}
