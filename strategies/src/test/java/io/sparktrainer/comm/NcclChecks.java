package io.sparktrainer.comm;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.comm.testing.RankThreads;
import io.sparktrainer.testing.StandIns;
import io.sparktrainer.torch.CudaStream;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.NativeLibraries;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.assertj.core.data.Offset;
import org.bytedeco.cuda.global.cudart;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.javacpp.PointerPointer;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * What a JVM that sees the stand-ins checks of NCCL between ranks that are threads. For each check
 * it prints a line with its name, what goes wrong, and what the stand-in was called for.
 */
final class NcclChecks {
  static final String BEGIN = "BEGIN ";
  static final String FAILED = "FAILED ";
  static final String CALLED = "CALLED ";

  private static final int PIECE = 5;
  private static final int TIMEOUT_SECONDS = 30;

  private NcclChecks() {}

  private static Map<String, Runnable> checks() {
    Map<String, Runnable> checks = new LinkedHashMap<>();
    checks.put("settings", NcclChecks::settings);
    checks.put("streams", NcclChecks::streams);
    checks.put("arithmetic", NcclChecks::arithmetic);
    checks.put("groups", NcclChecks::groups);
    checks.put("misuse", NcclChecks::misuse);
    checks.put("abort", NcclChecks::abort);
    checks.put("late", NcclChecks::late);
    checks.put("different", NcclChecks::different);
    checks.put("missing rank", NcclChecks::missingRank);
    for (String call : List.of("init", "split", "launch", "async")) {
      checks.put("error in " + call, () -> error(call));
    }
    return checks;
  }

  /** The argument is a folder to use. */
  public static void main(String[] arguments) {
    StandIns.allow();
    NativeLibraries.load();
    checks().forEach((name, check) -> check(Path.of(arguments[0], name), name, check));
  }

  private static void check(Path log, String name, Runnable check) {
    System.out.println(BEGIN + name);
    torch.set_env("STANDIN_LOG", log.toString(), true);
    try {
      check.run();
    } catch (RuntimeException | Error e) {
      System.out.println(FAILED + e);
      e.printStackTrace(System.out);
    }
    try {
      if (Files.exists(log)) {
        Files.readAllLines(log).forEach(call -> System.out.println(CALLED + call));
      }
    } catch (IOException e) {
      System.out.println(FAILED + e);
    }
  }

  /** Runs {@code body} on threads that have an id and nothing else in common. */
  static void run(int worldSize, int timeoutSeconds, RankThreads.GroupBody body) {
    NcclId id = NcclId.parse(NcclId.create().toText());
    RankThreads.runConnected(
        worldSize,
        place -> NcclRendezvous.connect(id, place.rank(), worldSize, Device.CPU, timeoutSeconds),
        body);
  }

  private static void settings() {
    Map<String, String> settings = Map.of("NCCL_NSOCKS_PERTHREAD", "4");
    NcclLibrary.configure(settings);
    NcclRendezvous.connect(NcclId.create(), 0, 1, Device.CPU, TIMEOUT_SECONDS).close();
    NcclLibrary.configure(settings);
    assertThatThrownBy(() -> NcclLibrary.configure(Map.of("NCCL_NSOCKS_PERTHREAD", "8")))
        .isInstanceOf(IllegalStateException.class)
        .hasMessageContaining("NCCL has started in this process with '4', and reads it once.");
  }

  /** A copy of eight bytes behind a hundred others, and marks before and behind it. */
  private static void streams() {
    try (var scope = NativeScope.open();
        CudaStream stream = CudaStream.open(Device.CPU);
        CudaStream other = CudaStream.open(Device.CPU)) {
      Tensor source = Tensors.of(new long[] {7}, 1);
      Tensor target = Tensors.zeros(DType.INT64, Device.CPU, 1);
      CudaStream.Mark before = other.mark();
      stream.followLibtorch();
      for (int i = 0; i < 100; i++) {
        int result =
            cudart.cudaMemcpyAsync(
                target.data_ptr(), source.data_ptr(), 8, cudart.cudaMemcpyDefault, stream.handle());
        assertThat(result).isEqualTo(cudart.cudaSuccess);
      }
      CudaStream.Mark behind = stream.mark();
      while (!(before.isReached() && behind.isReached())) {
        Thread.onSpinWait();
      }
      assertThat(Tensors.toLongs(target)).containsExactly(7);
      before.release();
      behind.release();
      stream.close();
    }
    torch.set_env("STANDIN_MALLOC_LIMIT", "100", true);
    try (PointerPointer<Pointer> memory = new PointerPointer<>(1)) {
      assertThat(cudart.cudaMalloc(memory, 101)).isEqualTo(cudart.cudaErrorMemoryAllocation);
      assertThat(cudart.cudaGetErrorString(cudart.cudaGetLastError()).getString())
          .isEqualTo("out of memory");
      assertThat(cudart.cudaMalloc(memory, 100)).isEqualTo(cudart.cudaSuccess);
      assertThat(cudart.cudaFree(memory.get(0))).isEqualTo(cudart.cudaSuccess);
    }
    assertThatThrownBy(() -> CudaStream.open(Device.cuda(0)))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining(
            "expected a CUDA device, or the CPU with a stand-in for one, got cuda:0");
  }

  private static void arithmetic() {
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

  private static void groups() {
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
          together((NcclCommunicator) group);
          severalUnderWay(group);
        });
  }

  private static float sum(Communicator group, float value) {
    try (var scope = NativeScope.open()) {
      Tensor tensor = Tensors.of(new float[] {value}, 1);
      group.allReduce(tensor, ReduceOp.SUM).await();
      return Tensors.toFloats(tensor)[0];
    }
  }

  private static void together(NcclCommunicator group) {
    try (var scope = NativeScope.open()) {
      List<Tensor> tensors = new ArrayList<>();
      List<CollectiveHandle> handles = new ArrayList<>();
      group.grouped(
          () -> {
            for (int i = 0; i < 10; i++) {
              Tensor tensor = Tensors.of(new float[] {i}, 1);
              tensors.add(tensor);
              handles.add(group.allReduce(tensor, ReduceOp.SUM));
            }
            assertThatThrownBy(() -> handles.get(0).await())
                .isInstanceOf(IllegalStateException.class)
                .hasMessageContaining("it starts at the end of its group of calls");
          });
      for (int i = 0; i < 10; i++) {
        handles.get(i).await();
        assertThat(Tensors.toFloats(tensors.get(i))).containsExactly(4f * i);
      }
    }
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

  private static void misuse() {
    NcclId id = NcclId.create();
    assertThat(NcclId.of(id.toBytes())).isEqualTo(id).hasSameHashCodeAs(id);
    assertThat(id).isNotEqualTo(NcclId.create());
    assertThat(id.toString()).doesNotContain(id.toText());
    assertThatThrownBy(() -> NcclId.parse("abc"))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage(
            "Cannot read an NCCL id: expected the base64 text of 128 bytes, got 3 characters.");
    assertThatThrownBy(() -> NcclRendezvous.connect(id, 2, 2, Device.CPU, 1))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("expected a rank in 0..1");
    assertThatThrownBy(() -> NcclRendezvous.connect(id, 0, 1, Device.cuda(0), 1))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("expected a CUDA device, or the CPU with a stand-in");
    assertThatThrownBy(() -> NcclRendezvous.connect(id, 0, 1, Device.cuda(7), 1))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("Cannot use CUDA device 7: expected one in 0..1");
    assertThatThrownBy(() -> NcclRendezvous.connect(NcclId.of(new byte[128]), 0, 1, Device.CPU, 1))
        .isInstanceOf(CollectiveException.class)
        .hasMessageContaining("Cannot join the NCCL group on cpu (rank 0 of 1): invalid argument");
    Communicator group = NcclRendezvous.connect(id, 0, 1, Device.CPU, TIMEOUT_SECONDS);
    try (var scope = NativeScope.open()) {
      assertThatThrownBy(() -> group.broadcast(Tensors.zeros(DType.INT16, Device.CPU, 2), 0))
          .hasMessage("Cannot broadcast a tensor: NCCL has no int16, got int16[2] on cpu.");
      assertThatThrownBy(
              () ->
                  group.allGather(
                      Tensors.zeros(DType.FLOAT32, Device.CPU, 2),
                      Tensors.zeros(DType.FLOAT32, Device.CPU, 3)))
          .hasMessageContaining("expected output of 1 x the elements of input");
      Tensor meta;
      try (var shapes = io.sparktrainer.torch.ShapesOnly.open()) {
        meta = Tensors.zeros(DType.FLOAT32, Device.CPU, 2);
      }
      assertThatThrownBy(() -> group.allReduce(meta, ReduceOp.SUM))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessageContaining("expected a dense, contiguous one on the CPU");
    }
    environment();
    group.close();
    group.close();
    assertThatThrownBy(group::barrier)
        .isInstanceOf(IllegalStateException.class)
        .hasMessageContaining("the communicator is closed");
  }

  private static void environment() {
    assertThatThrownBy(() -> NcclLibrary.configure(Map.of("PATH", "/")))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("Cannot set 'PATH' for NCCL: expected a name that starts with NCCL_.");
    assertThatThrownBy(() -> NcclLibrary.configure(Map.of("NCCL_DEBUG", "INFO")))
        .isInstanceOf(IllegalStateException.class)
        .hasMessage(
            "Cannot set NCCL_DEBUG to 'INFO': NCCL has started in this process with none, and reads"
                + " it once. Start new executors for other settings.");
  }

  /** Without a store, the others meet the abort in the time-out, and their devices are freed. */
  private static void abort() {
    run(
        2,
        1,
        group -> {
          group.barrier().await();
          if (group.rank() == 0) {
            group.abort("loss is NaN");
            group.abort("later");
            assertThatThrownBy(group::barrier)
                .isInstanceOf(CollectiveException.class)
                .hasMessageContaining("aborted by rank 0 of 2: loss is NaN");
          } else {
            assertThatThrownBy(() -> group.barrier().await())
                .isInstanceOf(CollectiveException.class)
                .hasMessageContaining("barrier #1 did not end within 1 s");
          }
        });
  }

  private static void late() {
    run(
        2,
        1,
        group -> {
          if (group.rank() == 0) {
            assertThatThrownBy(() -> group.barrier().await())
                .isInstanceOf(CollectiveException.class)
                .hasMessageStartingWith("Cannot complete barrier #0 (rank 0 of 2, after 1.")
                .hasMessageContaining(
                    "rank 0 of 2: barrier #0 did not end within 1 s. Ranks that make another call,"
                        + " or with other sizes, wait for ever: see their logs");
          }
        });
  }

  private static void different() {
    run(
        2,
        1,
        group -> {
          try (var scope = NativeScope.open()) {
            Tensor tensor = Tensors.zeros(DType.FLOAT32, Device.CPU, group.rank() + 1);
            CollectiveHandle handle = group.allReduce(tensor, ReduceOp.SUM);
            assertThatThrownBy(handle::await)
                .isInstanceOf(CollectiveException.class)
                .hasMessageContaining("did not end within 1 s");
            assertThatThrownBy(handle::await).hasMessageContaining("did not end within 1 s");
            assertThat(handle.isDone()).isTrue();
          }
        });
  }

  private static void missingRank() {
    assertThatThrownBy(() -> NcclRendezvous.connect(NcclId.create(), 0, 2, Device.CPU, 1))
        .isInstanceOf(CollectiveException.class)
        .hasMessageMatching(
            "(?s)Cannot connect the NCCL group on cpu \\(rank 0 of 2, after 1\\.. s\\): expected all"
                + " ranks within 1 s.*");
  }

  /** Lets {@code call} fail on rank 1; prints what each rank gets. */
  private static void error(String call) {
    torch.set_env("STANDIN_NCCL_FAIL", call, true);
    torch.set_env("STANDIN_NCCL_RANK", "1", true);
    NcclId id = NcclId.create();
    RankThreads.run(
        2,
        place -> {
          String message = "none";
          try (Communicator group = NcclRendezvous.connect(id, place, Device.CPU)) {
            try {
              Communicator pair = group.subGroup("pair", 0, 1);
              assertThat(sum(pair, 1)).isEqualTo(2);
              group.barrier().await();
            } catch (CollectiveException e) {
              group.abort(e.getMessage());
              throw e;
            }
          } catch (CollectiveException e) {
            message = e.getMessage();
          }
          System.out.println("rank " + place.rank() + " got: " + message);
        });
  }
}
