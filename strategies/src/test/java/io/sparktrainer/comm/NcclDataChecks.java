package io.sparktrainer.comm;

import static io.sparktrainer.comm.NcclChecks.TIMEOUT_SECONDS;
import static io.sparktrainer.comm.NcclChecks.run;
import static io.sparktrainer.torch.Tensors.scalar;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.util.ArrayList;
import java.util.List;
import org.assertj.core.data.Offset;
import org.bytedeco.pytorch.Tensor;

/** What collectives of NCCL compute, and for whom: parts of {@link NcclChecks}. */
final class NcclDataChecks {
  private static final int PIECE = 5;

  private NcclDataChecks() {}

  static void arithmetic() {
    for (int worldSize = 1; worldSize <= 3; worldSize++) {
      run(
          worldSize,
          TIMEOUT_SECONDS,
          group -> {
            for (DType dtype : DType.values()) {
              for (ReduceOp op : ReduceOp.values()) {
                if (dtype.isFloatingPoint()
                    || (dtype != DType.BOOL && dtype != DType.INT16 && op != ReduceOp.AVG)) {
                  reductions(group, dtype, op);
                }
              }
              if (dtype != DType.INT16) {
                movements(group, dtype);
              }
            }
            large(group);
            group.barrier().await();
          });
    }
  }

  private static long value(int rank, long i) {
    return (rank + 1) * 3L - i % 4;
  }

  private static Tensor input(int rank, int elements, DType dtype) {
    long[] values = new long[elements];
    for (int i = 0; i < elements; i++) {
      values[i] = value(rank, i);
    }
    return Tensors.of(values, elements).to(dtype.scalarType());
  }

  private static float[] expected(ReduceOp op, int worldSize, int start, int length) {
    float[] values = new float[length];
    for (int i = 0; i < length; i++) {
      double result = value(0, start + i);
      for (int rank = 1; rank < worldSize; rank++) {
        double next = value(rank, start + i);
        result =
            switch (op) {
              case SUM, AVG -> result + next;
              case MIN -> Math.min(result, next);
              case MAX -> Math.max(result, next);
            };
      }
      values[i] = (float) (op == ReduceOp.AVG ? result / worldSize : result);
    }
    return values;
  }

  private static void reductions(Communicator group, DType dtype, ReduceOp op) {
    int worldSize = group.worldSize();
    int elements = PIECE * worldSize;
    Offset<Float> tolerance =
        Offset.offset(dtype == DType.BFLOAT16 ? 0.05f : dtype == DType.FLOAT16 ? 0.005f : 1e-6f);
    try (var scope = NativeScope.open()) {
      Tensor all = input(group.rank(), elements, dtype);
      group.allReduce(all, op).await();
      assertThat(Tensors.toFloats(all))
          .as("all-reduce %s %s", dtype, op)
          .containsExactly(expected(op, worldSize, 0, elements), tolerance);
      Tensor piece = Tensors.zeros(dtype, Device.CPU, PIECE);
      group.reduceScatter(piece, input(group.rank(), elements, dtype), op).await();
      float[] mine = expected(op, worldSize, group.rank() * PIECE, PIECE);
      assertThat(Tensors.toFloats(piece))
          .as("reduce-scatter %s %s", dtype, op)
          .containsExactly(mine, tolerance);
      Tensor whole = input(group.rank(), elements, dtype);
      Tensor own = whole.narrow(0, (long) PIECE * group.rank(), PIECE);
      group.reduceScatter(own, whole, op).await();
      assertThat(Tensors.toFloats(own)).as("in place").containsExactly(mine, tolerance);
    }
  }

  private static void movements(Communicator group, DType dtype) {
    int worldSize = group.worldSize();
    try (var scope = NativeScope.open()) {
      Tensor all = Tensors.zeros(dtype, Device.CPU, worldSize, 2);
      Tensor mine = Tensors.of(new long[] {group.rank(), 1}, 2).to(dtype.scalarType());
      group.allGather(all, mine).await();
      float[] gathered = Tensors.toFloats(all);
      for (int rank = 0; rank < worldSize; rank++) {
        float expected = dtype == DType.BOOL ? Math.min(rank, 1) : rank;
        assertThat(gathered[2 * rank]).isEqualTo(expected);
        assertThat(gathered[2 * rank + 1]).isEqualTo(1);
      }
      for (int root = 0; root < worldSize; root++) {
        Tensor sent = Tensors.of(new long[] {group.rank()}, 1).to(dtype.scalarType());
        group.broadcast(sent, root).await();
        assertThat(Tensors.toFloats(sent))
            .containsExactly(dtype == DType.BOOL ? Math.min(root, 1) : root);
      }
      Tensor none = Tensors.zeros(dtype, Device.CPU, 0);
      group.allGather(none, none).await();
    }
  }

  /** Several parts of the stand-in's. */
  private static void large(Communicator group) {
    try (var scope = NativeScope.open()) {
      Tensor ones =
          Tensors.zeros(DType.FLOAT32, Device.CPU, 100_001).fill_(Tensors.scalar(group.rank() + 1));
      group.allReduce(ones, ReduceOp.SUM).await();
      float sum = group.worldSize() * (group.worldSize() + 1) / 2f;
      assertThat(Tensors.toFloats(ones)).containsOnly(sum);
    }
  }

  static void groups() {
    run(
        4,
        TIMEOUT_SECONDS,
        group -> {
          int rank = group.rank();
          int row = rank / 2;
          int column = rank % 2;
          try (Communicator shard = group.subGroup("shard", 2 * row, 2 * row + 1);
              Communicator replicate = group.subGroup("replicate", column, column + 2);
              Communicator three =
                  rank == 3 ? group.subGroup("three", 3) : group.subGroup("three", 0, 1, 2)) {
            assertThat(shard.rank()).isEqualTo(column);
            assertThat(replicate.rank()).isEqualTo(row);
            assertThat(sum(shard, 1 << rank)).isEqualTo(row == 0 ? 3 : 12);
            assertThat(sum(replicate, 1 << rank)).isEqualTo(column == 0 ? 5 : 10);
            assertThat(sum(group, 1 << rank)).isEqualTo(15);
            assertThat(three.worldSize()).isEqualTo(rank == 3 ? 1 : 3);
            assertThat(sum(three, 1 << rank)).isEqualTo(rank == 3 ? 8 : 7);
            try (Communicator again = shard.subGroup("again", 0, 1)) {
              assertThat(sum(again, rank)).isEqualTo(4 * row + 1);
            }
          }
          severalUnderWay(group);
        });
  }

  static float sum(Communicator group, float value) {
    try (var scope = NativeScope.open()) {
      Tensor tensor = Tensors.of(new float[] {value}, 1);
      group.allReduce(tensor, ReduceOp.SUM).await();
      return Tensors.toFloats(tensor)[0];
    }
  }

  /** Collectives of one group of calls, of every kind, and one that is refused among them. */
  static void together() {
    run(
        2,
        TIMEOUT_SECONDS,
        group -> {
          try (var scope = NativeScope.open()) {
            Tensor sum = Tensors.of(new float[] {group.rank()}, 1);
            Tensor pieces = Tensors.of(new long[] {1, 2}, 2);
            Tensor piece = Tensors.zeros(DType.INT64, Device.CPU, 1);
            Tensor all = Tensors.zeros(DType.FLOAT64, Device.CPU, 2);
            Tensor own = Tensors.of(new float[] {group.rank() + 0.5f}, 1).to(all.scalar_type());
            List<CollectiveHandle> handles = new ArrayList<>();
            group.grouped(
                () -> {
                  handles.add(group.allReduce(sum, ReduceOp.SUM));
                  assertThatThrownBy(() -> handles.get(0).await())
                      .isInstanceOf(IllegalStateException.class)
                      .hasMessageContaining("it starts at the end of its group of calls");
                  handles.add(group.reduceScatter(piece, pieces, ReduceOp.SUM));
                  group.grouped(() -> handles.add(group.allGather(all, own)));
                  handles.add(group.barrier());
                });
            handles.forEach(CollectiveHandle::awaitOnHost);
            assertThat(Tensors.toFloats(sum)).containsExactly(1);
            assertThat(Tensors.toLongs(piece)).containsExactly(2L * (group.rank() + 1));
            assertThat(Tensors.toFloats(all)).containsExactly(0.5f, 1.5f);

            assertThatThrownBy(
                    () ->
                        group.grouped(
                            () -> {
                              handles.add(group.broadcast(sum.fill_(scalar(group.rank())), 1));
                              group.broadcast(sum, 2);
                            }))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("expected a root in 0..1, got 2");
            handles.get(handles.size() - 1).awaitOnHost();
            assertThat(Tensors.toFloats(sum)).containsExactly(1);
            group.grouped(() -> {});
          }
        });
  }

  private static void severalUnderWay(Communicator group) {
    try (var scope = NativeScope.open()) {
      List<Tensor> tensors = new ArrayList<>();
      List<CollectiveHandle> handles = new ArrayList<>();
      for (int i = 0; i < 20; i++) {
        Tensor tensor = Tensors.of(new float[] {group.rank() + i}, 1);
        tensors.add(tensor);
        handles.add(group.allReduce(tensor, ReduceOp.AVG));
      }
      for (int i = 19; i >= 0; i--) {
        handles.get(i).await();
        handles.get(i).await();
        assertThat(handles.get(i).isDone()).isTrue();
        assertThat(Tensors.toFloats(tensors.get(i))).containsExactly(1.5f + i);
      }
    }
    for (int i = 0; i < 100; i++) {
      try (var scope = NativeScope.open()) {
        group.allReduce(Tensors.zeros(DType.FLOAT32, Device.CPU, 1_000), ReduceOp.AVG);
      }
    }
    group.barrier().await();
  }
}
