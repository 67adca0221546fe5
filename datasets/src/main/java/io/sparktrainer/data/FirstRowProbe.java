package io.sparktrainer.data;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.ml.linalg.Vector;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.types.DataType;
import scala.collection.Seq;

/** Reads the first row that has a value in the column: one small job per column that needs it. */
final class FirstRowProbe implements LengthProbe {
  private final Dataset<Row> frame;
  private final Map<String, int[]> found = new HashMap<>();

  FirstRowProbe(Dataset<Row> frame) {
    this.frame = frame;
  }

  @Override
  public int[] dims(String column, DataType type) {
    return found.computeIfAbsent(column, this::read);
  }

  private int[] read(String column) {
    var col = frame.col("`" + column.replace("`", "``") + "`");
    List<Row> rows = frame.select(col).where(col.isNotNull()).takeAsList(1);
    if (rows.isEmpty()) {
      throw new IllegalArgumentException(
          "Cannot find the length of column '%s': the DataFrame has 0 rows with a value in it."
              .formatted(column));
    }
    Object value = rows.get(0).get(0);
    List<Integer> dims = new ArrayList<>();
    if (value instanceof Vector vector) {
      dims.add(vector.size());
    } else if (value instanceof byte[] bytes) {
      dims.add(bytes.length);
    } else {
      while (value instanceof Seq<?> seq) {
        dims.add(seq.length());
        value = seq.isEmpty() ? null : seq.head();
      }
    }
    return dims.stream().mapToInt(Integer::intValue).toArray();
  }
}
