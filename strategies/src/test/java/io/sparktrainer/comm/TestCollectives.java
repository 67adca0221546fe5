package io.sparktrainer.comm;

import static org.assertj.core.api.Assertions.assertThat;

import io.sparktrainer.comm.testing.RankThreads;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.nio.charset.StandardCharsets;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Every collective against plain arithmetic, ranks as threads. */
class TestCollectives {
  private static final int PIECE = 5;

  /** Element {@code i} of rank {@code rank}'s input: small integers, exact in every type. */
  private static long value(int rank, long i) {
    return (rank + 1) * 3L - i % 4;
  }

  private static double reduced(ReduceOp op, int worldSize, long i) {
    double result = value(0, i);
    for (int rank = 1; rank < worldSize; rank++) {
      double next = value(rank, i);
      result =
          switch (op) {
            case SUM, AVG -> result + next;
            case MIN -> Math.min(result, next);
            case MAX -> Math.max(result, next);
          };
    }
    return op == ReduceOp.AVG ? result / worldSize : result;
  }

  private static Tensor input(int rank, long elements, DType dtype) {
    long[] values = new long[(int) elements];
    for (int i = 0; i < elements; i++) {
      values[i] = value(rank, i);
    }
    return Tensors.of(values, elements).to(dtype.scalarType());
  }

  private static float[] expected(ReduceOp op, int worldSize, long start, int length) {
    float[] values = new float[length];
    for (int i = 0; i < length; i++) {
      values[i] = (float) reduced(op, worldSize, start + i);
    }
    return values;
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3, 4})
  void reducesEveryTypeAndOp(int worldSize) {
    RankThreads.runConnected(
        worldSize,
        group -> {
          for (DType dtype : DType.values()) {
            for (ReduceOp op : ReduceOp.values()) {
              boolean reducible =
                  dtype.isFloatingPoint()
                      || (dtype != DType.BOOL && dtype != DType.INT16 && op != ReduceOp.AVG);
              if (reducible) {
                checkReduction(group, dtype, op);
              }
            }
          }
        });
  }

  private static void checkReduction(Communicator group, DType dtype, ReduceOp op) {
    int worldSize = group.worldSize();
    int elements = PIECE * worldSize;
    float tolerance = dtype == DType.BFLOAT16 ? 0.05f : dtype == DType.FLOAT16 ? 0.005f : 1e-6f;
    try (var scope = NativeScope.open()) {
      Tensor all = input(group.rank(), elements, dtype);
      group.allReduce(all, op).await();
      assertThat(Tensors.toFloats(all))
          .as("all-reduce %s %s", dtype, op)
          .containsExactly(expected(op, worldSize, 0, elements), within(tolerance));
      Tensor piece = Tensors.zeros(dtype, Device.CPU, PIECE);
      group.reduceScatter(piece, input(group.rank(), elements, dtype), op).await();
      assertThat(Tensors.toFloats(piece))
          .as("reduce-scatter %s %s", dtype, op)
          .containsExactly(
              expected(op, worldSize, (long) group.rank() * PIECE, PIECE), within(tolerance));
    }
  }

  private static org.assertj.core.data.Offset<Float> within(float tolerance) {
    return org.assertj.core.data.Offset.offset(tolerance);
  }

  @ParameterizedTest
  @EnumSource(value = DType.class, mode = EnumSource.Mode.EXCLUDE, names = "INT16")
  void gathersAndBroadcastsEveryType(DType dtype) {
    RankThreads.runConnected(
        3,
        group -> {
          try (var scope = NativeScope.open()) {
            long[] mine = {group.rank(), 1, 0};
            Tensor all = Tensors.zeros(dtype, Device.CPU, 3, 3);
            group.allGather(all, Tensors.of(mine, 3).to(dtype.scalarType())).await();
            float[] gathered =
                dtype == DType.BOOL
                    ? new float[] {0, 1, 0, 1, 1, 0, 1, 1, 0}
                    : new float[] {0, 1, 0, 1, 1, 0, 2, 1, 0};
            assertThat(Tensors.toFloats(all)).containsExactly(gathered);
            for (int root = 0; root < 3; root++) {
              Tensor sent = Tensors.of(new long[] {group.rank()}, 1).to(dtype.scalarType());
              group.broadcast(sent, root).await();
              float expected = dtype == DType.BOOL ? Math.min(root, 1) : root;
              assertThat(Tensors.toFloats(sent)).containsExactly(expected);
            }
          }
        });
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 4})
  void exchangesBytesOfDifferentLengths(int worldSize) {
    RankThreads.runConnected(
        worldSize,
        group -> {
          String mine = "r".repeat(group.rank() * 7);
          byte[][] all = ByteExchange.allGather(group, mine.getBytes(StandardCharsets.UTF_8));
          assertThat(all).hasNumberOfRows(worldSize);
          for (int rank = 0; rank < worldSize; rank++) {
            assertThat(new String(all[rank], StandardCharsets.UTF_8))
                .isEqualTo("r".repeat(rank * 7));
          }
          assertThat(ByteExchange.allGather(group, new byte[0])).hasNumberOfRows(worldSize);
        });
  }

  @Test
  void barrierWaitsForEveryRank() {
    var arrived = new java.util.concurrent.atomic.AtomicInteger();
    RankThreads.runConnected(
        3,
        group -> {
          arrived.incrementAndGet();
          group.barrier().await();
          assertThat(arrived.get()).isEqualTo(3);
        });
  }

  /** Longer than the ring's grain, and into the rank's own piece of the input. */
  @ParameterizedTest
  @ValueSource(ints = {2, 3})
  void reduceScattersInPlace(int worldSize) {
    long piece = 70_001;
    RankThreads.runConnected(
        worldSize,
        group -> {
          try (var scope = NativeScope.open()) {
            Tensor apart = Tensors.zeros(DType.FLOAT32, Device.CPU, piece);
            group
                .reduceScatter(
                    apart, input(group.rank(), piece * worldSize, DType.FLOAT32), ReduceOp.AVG)
                .await();
            Tensor all = input(group.rank(), piece * worldSize, DType.FLOAT32);
            Tensor own = all.narrow(0, piece * group.rank(), piece);
            group.reduceScatter(own, all, ReduceOp.AVG).await();
            float[] expected = expected(ReduceOp.AVG, worldSize, group.rank() * piece, (int) piece);
            assertThat(greatestDifference(Tensors.toFloats(apart), expected)).isLessThan(1e-6f);
            assertThat(greatestDifference(Tensors.toFloats(own), expected)).isLessThan(1e-6f);
          }
        });
  }

  /** Of long arrays, whose comparison by AssertJ takes seconds. */
  private static float greatestDifference(float[] found, float[] expected) {
    assertThat(found).hasSameSizeAs(expected);
    float greatest = 0;
    for (int i = 0; i < found.length; i++) {
      // NaN stays
      greatest = Math.max(greatest, Math.abs(found[i] - expected[i]));
    }
    return greatest;
  }

  @Test
  void movesEmptyTensors() {
    RankThreads.runConnected(
        2,
        group -> {
          try (var scope = NativeScope.open()) {
            Tensor none = Tensors.zeros(DType.FLOAT32, Device.CPU, 0);
            Tensor alsoNone = Tensors.zeros(DType.FLOAT32, Device.CPU, 0);
            group.allReduce(none, ReduceOp.AVG).await();
            group.reduceScatter(none, alsoNone, ReduceOp.SUM).await();
            group.allGather(none, alsoNone).await();
            group.broadcast(none, 1).await();
            assertThat(none.numel()).isZero();
          }
        });
  }
}
