package io.sparktrainer.data;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;

/** All values of a small DataFrame's tensors, by name, in DataFrame order. */
final class Columns {
  private Columns() {}

  static Map<String, List<Double>> read(Dataset<Row> frame, DataSpec spec, ReadPath path) {
    DataSpec ordered = spec.toBuilder().order(DataSpec.Order.SEQUENTIAL).build();
    PreparedData data = Datasets.prepare(frame, null, ordered, 1, path);
    data.materialize();
    Map<String, List<Double>> values = new LinkedHashMap<>();
    try (Ranks ranks = Ranks.of(data);
        BatchReader reader = ranks.ranks.get(0).training().epoch(0)) {
      while (reader.hasNext()) {
        Batch batch = reader.next();
        List<TensorBuffer> tensors = new ArrayList<>(batch.inputs());
        if (batch.label() != null) {
          tensors.add(batch.label());
        }
        if (batch.weight() != null) {
          tensors.add(batch.weight());
        }
        for (TensorBuffer tensor : tensors) {
          List<Double> all =
              values.computeIfAbsent(tensor.spec().name(), name -> new ArrayList<>());
          for (int i = 0; i < tensor.rows() * tensor.spec().rowElements(); i++) {
            all.add(element(tensor.data(), tensor.spec().type(), i));
          }
        }
      }
    }
    return values;
  }

  static double element(ByteBuffer data, ElementType type, int index) {
    int at = index * type.bytes();
    return switch (type) {
      case FLOAT32 -> data.getFloat(at);
      case FLOAT64 -> data.getDouble(at);
      case INT64 -> data.getLong(at);
      case INT32 -> data.getInt(at);
      case INT16 -> data.getShort(at);
      case INT8 -> data.get(at);
      case UINT8, BOOL -> data.get(at) & 0xff;
    };
  }
}
