package io.sparktrainer.comm;

import io.sparktrainer.torch.NativeScope;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.Work;
import org.bytedeco.pytorch.global.torch;

/**
 * Reduce-scatter around a ring: each rank sends one piece to its right neighbour while it receives
 * one from its left, adds its own, and passes the sum on, so that after {@code size - 1} steps each
 * rank has its piece of the reduction and has sent {@code (size - 1) / size} of the input. That is
 * half of what an all-reduce sends; libtorch's reduce-scatter on Gloo is an all-reduce of which
 * each rank copies a piece.
 *
 * <p>After Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
 * workstations", 2009. The order of the additions depends on the piece and the number of ranks
 * only, so every run gives the same bits.
 */
final class RingReduceScatter {
  // libtorch adds longer tensors with a team of threads, which the ring's thread would have to
  // itself, beside those of the rank.
  private static final long GRAIN_ELEMENTS = 32_768;

  private final GlooGroup group;
  private final int rank;
  private final int size;
  private final ReduceOp op;

  RingReduceScatter(GlooGroup group, int rank, int size, ReduceOp op) {
    this.group = group;
    this.rank = rank;
    this.size = size;
    this.op = op;
  }

  /**
   * Blocks until the piece is in {@code output}.
   *
   * @param output [elements / size]
   * @param input [elements]; its content is undefined afterwards
   * @param tag the same on all ranks, and of no other exchange under way
   */
  void run(Tensor output, Tensor input, int tag) {
    try (var scope = NativeScope.open()) {
      Tensor flatOutput = FlatTensors.flat(output);
      long length = flatOutput.numel();
      if (length == 0) {
        return;
      }
      Tensor arriving =
          FlatTensors.overlap(output, input) ? torch.empty_like(flatOutput) : flatOutput;
      for (int step = 0; step < size - 1; step++) {
        int sent = Math.floorMod(rank - step - 1, size);
        int received = Math.floorMod(rank - step - 2, size);
        exchange(FlatTensors.slice(input, sent * length, length), arriving, tag);
        Tensor own = FlatTensors.slice(input, received * length, length);
        boolean last = step == size - 2;
        combine(last ? flatOutput : own, own, arriving, length);
      }
      if (op == ReduceOp.AVG) {
        FlatTensors.divide(flatOutput, size);
      }
    }
  }

  private void exchange(Tensor leaving, Tensor arriving, int tag) {
    try (var scope = NativeScope.open();
        Work send = group.send(leaving, (rank + 1) % size, tag);
        Work receive = group.receive(arriving, Math.floorMod(rank - 1, size), tag)) {
      receive._wait();
      send._wait();
    }
  }

  /** {@code target = own (op) arrived}; {@code target} is one of the two, or apart from both. */
  private void combine(Tensor target, Tensor own, Tensor arrived, long length) {
    for (long start = 0; start < length; start += GRAIN_ELEMENTS) {
      try (var scope = NativeScope.open()) {
        long elements = Math.min(GRAIN_ELEMENTS, length - start);
        Tensor result = target.narrow(0, start, elements);
        Tensor left = own.narrow(0, start, elements);
        Tensor right = arrived.narrow(0, start, elements);
        switch (op) {
          case SUM, AVG -> torch.add_out(result, left, right);
          case MIN -> torch.minimum_out(result, left, right);
          case MAX -> torch.maximum_out(result, left, right);
        }
      }
    }
  }
}
