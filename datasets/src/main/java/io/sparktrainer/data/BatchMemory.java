package io.sparktrainer.data;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/** Direct memory of one batch: one buffer per tensor, filled record by record. */
final class BatchMemory implements AutoCloseable {
  private final TensorSchema schema;
  private final TensorSpec[] tensors;
  private final ByteBuffer[] buffers;
  private final int[] widths;

  BatchMemory(TensorSchema schema, int batchRows) {
    this.schema = schema;
    this.tensors = schema.tensors().toArray(new TensorSpec[0]);
    this.buffers = new ByteBuffer[tensors.length];
    this.widths = new int[tensors.length];
    for (int t = 0; t < tensors.length; t++) {
      widths[t] = tensors[t].rowBytes();
      buffers[t] = DirectMemory.allocate(Math.multiplyExact(batchRows, widths[t]));
    }
  }

  /** Copies the record at {@code offset} of {@code from} into the batch's row. */
  void put(int row, ByteBuffer from, int offset) {
    int at = offset;
    for (int t = 0; t < buffers.length; t++) {
      int width = widths[t];
      ByteBuffer to = buffers[t];
      switch (width) {
        case 4 -> to.putInt(row * 4, from.getInt(at));
        case 8 -> to.putLong(row * 8, from.getLong(at));
        default -> to.put(row * width, from, at, width);
      }
      at += width;
    }
  }

  Batch batch(long step, int rows) {
    List<TensorBuffer> all = new ArrayList<>(tensors.length);
    for (int t = 0; t < tensors.length; t++) {
      ByteBuffer data = buffers[t].slice(0, rows * widths[t]).order(buffers[t].order());
      all.add(new TensorBuffer(tensors[t], rows, data));
    }
    int inputs = schema.inputs().size();
    int next = inputs;
    TensorBuffer label = schema.label() == null ? null : all.get(next++);
    TensorBuffer weight = schema.weight() == null ? null : all.get(next);
    return new Batch(step, rows, List.copyOf(all.subList(0, inputs)), label, weight);
  }

  @Override
  public void close() {
    for (ByteBuffer buffer : buffers) {
      DirectMemory.free(buffer);
    }
  }
}
