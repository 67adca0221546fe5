package io.sparktrainer.data;

import static java.util.Objects.requireNonNull;

import java.io.Serializable;
import java.util.List;

/**
 * Name, element type and per-row shape of one tensor of a batch.
 *
 * @param name unique within a {@link TensorSchema}
 * @param type element type
 * @param rowShape shape of one row without the batch axis; empty for a scalar per row
 */
public record TensorSpec(String name, ElementType type, List<Long> rowShape)
    implements Serializable {
  public TensorSpec {
    requireNonNull(name, "name");
    requireNonNull(type, "type");
    rowShape = List.copyOf(rowShape);
    long elements = 1;
    for (long size : rowShape) {
      if (size < 1) {
        throw new IllegalArgumentException(
            "Cannot shape tensor '%s': expected sizes of at least 1, got %s."
                .formatted(name, rowShape));
      }
      elements = Math.multiplyExact(elements, size);
    }
    if (elements > Integer.MAX_VALUE / 16) {
      throw new IllegalArgumentException(
          "Cannot shape tensor '%s': expected at most %d elements per row, got %s."
              .formatted(name, Integer.MAX_VALUE / 16, rowShape));
    }
  }

  /** Elements of one row. */
  public int rowElements() {
    long elements = 1;
    for (long size : rowShape) {
      elements *= size;
    }
    return (int) elements;
  }

  /** Bytes of one row. */
  public int rowBytes() {
    return rowElements() * type.bytes();
  }

  /** Shape of a batch: {@code [rows, rowShape...]}. */
  public long[] batchShape(long rows) {
    long[] shape = new long[rowShape.size() + 1];
    shape[0] = rows;
    for (int axis = 1; axis < shape.length; axis++) {
      shape[axis] = rowShape.get(axis - 1);
    }
    return shape;
  }
}
