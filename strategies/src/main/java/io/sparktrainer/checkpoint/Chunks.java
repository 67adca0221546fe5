package io.sparktrainer.checkpoint;

import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.io.IOException;
import java.nio.ByteBuffer;
import org.bytedeco.pytorch.Tensor;

/** Walks a tensor's memory in pieces, for a Java buffer holds at most 2 GiB. */
final class Chunks {
  static final long BYTES = 64L << 20;

  private Chunks() {}

  /** What is done with one piece. */
  @FunctionalInterface
  interface Action {
    void apply(ByteBuffer piece) throws IOException;
  }

  /**
   * @param tensor contiguous, on the CPU
   */
  static void forEach(Tensor tensor, Action action) throws IOException {
    long step = BYTES / DType.of(tensor).bytes();
    for (long start = 0; start < tensor.numel(); start += step) {
      try (var scope = NativeScope.open()) {
        Tensor flat = tensor.detach().view(-1);
        action.apply(Tensors.bytes(flat.narrow(0, start, Math.min(step, tensor.numel() - start))));
      }
    }
  }
}
