package io.sparktrainer.checkpoint;

import io.sparktrainer.torch.DType;
import java.util.List;

/**
 * Where one tensor lies in a safetensors file.
 *
 * @param begin first byte, counted from the end of the header
 * @param end byte after the last, counted from the end of the header
 */
record TensorEntry(String name, DType dtype, List<Long> shape, long begin, long end) {
  TensorEntry {
    shape = List.copyOf(shape);
  }

  long elements() {
    return (end - begin) / dtype.bytes();
  }

  long[] sizes() {
    return shape.stream().mapToLong(Long::longValue).toArray();
  }
}
