package io.sparktrainer.data;

import java.nio.ByteBuffer;

/**
 * One tensor of a batch in direct memory: row-major, contiguous, in native byte order.
 *
 * <p>The memory is used again for a later batch; see {@link Batch}.
 *
 * @param spec name, element type, per-row shape
 * @param rows rows in the batch
 * @param data direct buffer of {@code rows * spec.rowBytes()} bytes, from 0 to its limit
 */
public record TensorBuffer(TensorSpec spec, int rows, ByteBuffer data) {
  /** Shape: {@code [rows, rowShape...]}. */
  public long[] shape() {
    return spec.batchShape(rows);
  }
}
