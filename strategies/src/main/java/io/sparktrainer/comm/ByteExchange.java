package io.sparktrainer.comm;

import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.nio.ByteBuffer;
import org.bytedeco.pytorch.Tensor;

/** Bytes of any length from every rank to every rank, for fingerprints and small settings. */
public final class ByteExchange {
  private ByteExchange() {}

  /**
   * Gathers every rank's {@code mine}, in rank order; the lengths may differ. Two all-gathers, the
   * second padded to the longest.
   *
   * @throws CollectiveException if a peer is gone, the time-out has passed or the group was aborted
   */
  public static byte[][] allGather(Communicator communicator, byte[] mine) {
    int worldSize = communicator.worldSize();
    try (var scope = NativeScope.open()) {
      Tensor lengths = Tensors.zeros(DType.INT64, Device.CPU, worldSize);
      communicator.allGather(lengths, Tensors.of(new long[] {mine.length}, 1)).await();
      long[] length = Tensors.toLongs(lengths);
      long longest = 0;
      for (long each : length) {
        longest = Math.max(longest, each);
      }
      Tensor padded = Tensors.zeros(DType.UINT8, Device.CPU, longest);
      Tensors.bytes(padded).put(mine);
      Tensor all = Tensors.empty(DType.UINT8, Device.CPU, longest * worldSize);
      communicator.allGather(all, padded).await();
      ByteBuffer gathered = Tensors.bytes(all);
      byte[][] result = new byte[worldSize][];
      for (int rank = 0; rank < worldSize; rank++) {
        result[rank] = new byte[(int) length[rank]];
        gathered.position((int) (rank * longest)).get(result[rank]);
      }
      return result;
    }
  }
}
