package io.sparktrainer.strategy;

import io.sparktrainer.comm.Communicator;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Gradients;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.util.ArrayList;
import java.util.Collection;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorVector;
import org.bytedeco.pytorch.global.torch;

/** Broadcasts many tensors in few collectives, one type at a time in chunks of 25 MiB. */
public final class CoalescedBroadcast {
  private static final long CHUNK_BYTES = 25L << 20;

  private CoalescedBroadcast() {}

  /**
   * Replaces {@code tensors} on every rank by those of rank {@code root}. Values are written
   * without raising version counters, so that graphs which saved the tensors stay usable.
   */
  public static void run(Communicator communicator, Collection<Tensor> tensors, int root) {
    if (communicator.worldSize() == 1) {
      return;
    }
    try (var off = Gradients.off()) {
      for (List<Tensor> chunk : chunks(tensors)) {
        broadcast(communicator, chunk, root);
      }
    }
  }

  private static List<List<Tensor>> chunks(Collection<Tensor> tensors) {
    Map<DType, List<Tensor>> open = new EnumMap<>(DType.class);
    Map<DType, Long> sizes = new EnumMap<>(DType.class);
    List<List<Tensor>> chunks = new ArrayList<>();
    for (Tensor tensor : tensors) {
      DType dtype = DType.of(tensor);
      open.computeIfAbsent(dtype, key -> new ArrayList<>()).add(tensor);
      long size = sizes.merge(dtype, tensor.numel() * dtype.bytes(), Long::sum);
      if (size >= CHUNK_BYTES) {
        chunks.add(open.remove(dtype));
        sizes.remove(dtype);
      }
    }
    chunks.addAll(open.values());
    return chunks;
  }

  private static void broadcast(Communicator communicator, List<Tensor> chunk, int root) {
    try (var scope = NativeScope.open()) {
      Tensor[] flattened = chunk.stream().map(t -> t.detach().flatten()).toArray(Tensor[]::new);
      Tensor flat = torch.cat(new TensorVector(flattened));
      communicator.broadcast(flat, root).await();
      if (communicator.rank() == root) {
        return;
      }
      long offset = 0;
      for (Tensor tensor : chunk) {
        long numel = tensor.numel();
        Tensors.overwrite(tensor, flat.narrow(0, offset, numel).view_as(tensor));
        offset += numel;
      }
    }
  }
}
