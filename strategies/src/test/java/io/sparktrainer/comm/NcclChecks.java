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
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
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

  static final int TIMEOUT_SECONDS = 30;

  private NcclChecks() {}

  private static Map<String, Runnable> checks() {
    Map<String, Runnable> checks = new LinkedHashMap<>();
    checks.put("settings", NcclChecks::settings);
    checks.put("streams", NcclChecks::streams);
    checks.put("arithmetic", NcclDataChecks::arithmetic);
    checks.put("groups", NcclDataChecks::groups);
    checks.put("together", NcclDataChecks::together);
    checks.put("order", NcclOrderChecks::order);
    checks.put("overlap", NcclOrderChecks::overlap);
    checks.put("memory", NcclOrderChecks::memory);
    checks.put("misuse", NcclChecks::misuse);
    checks.put("abort", NcclFailureChecks::abort);
    checks.put("late", NcclFailureChecks::late);
    checks.put("late after await", NcclFailureChecks::lateAfterAwait);
    checks.put("different", NcclFailureChecks::different);
    checks.put("missing rank", NcclFailureChecks::missingRank);
    for (String call : List.of("init", "split", "launch", "async")) {
      checks.put("error in " + call, () -> NcclFailureChecks.error(call));
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
}
