package io.sparktrainer.comm;

import io.sparktrainer.comm.CollectiveCounts.Kind;
import io.sparktrainer.torch.DType;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/**
 * What one rank asks for in one collective; ranks that match have equal calls.
 *
 * @param sequence how many collectives the group had started before on this rank, from 0
 * @param op reduction, null where nothing is reduced
 * @param dtype element type, null for a barrier
 * @param elements elements of the largest tensor
 * @param root sending rank of a broadcast, -1 otherwise
 */
record CollectiveCall(
    long sequence,
    Kind kind,
    @Nullable ReduceOp op,
    @Nullable DType dtype,
    long elements,
    int root) {

  long bytes() {
    return dtype == null ? 0 : elements * dtype.bytes();
  }

  /** {@code all-reduce #17}: for messages. */
  String title() {
    return kind.name().toLowerCase(Locale.ROOT).replace('_', '-') + " #" + sequence;
  }

  /** {@code all-reduce #17 of float32[1024], sum}: for messages. */
  @Override
  public String toString() {
    StringBuilder text = new StringBuilder(title());
    if (dtype != null) {
      text.append(" of ").append(dtype).append('[').append(elements).append(']');
    }
    if (op != null) {
      text.append(", ").append(op.name().toLowerCase(Locale.ROOT));
    }
    if (root >= 0) {
      text.append(", from rank ").append(root);
    }
    return text.toString();
  }
}
