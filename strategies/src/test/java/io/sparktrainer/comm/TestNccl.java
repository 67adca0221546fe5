package io.sparktrainer.comm;

import static org.assertj.core.api.Assertions.assertThat;

import io.sparktrainer.testing.ChildJvm;
import io.sparktrainer.testing.StandIns;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.NativeLibraryException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * NCCL through the real bindings, on stand-ins for the devices, ranks as threads: what {@link
 * NcclChecks} prints, from one child JVM for all.
 */
class TestNccl {
  private static String output = "";

  @BeforeAll
  static void run(@TempDir Path folder) {
    ChildJvm.Result result =
        ChildJvm.run(StandIns.environment(Map.of()), NcclChecks.class, folder.toString());
    output = result.output();
    assertThat(result.exitCode()).as(output).isZero();
  }

  /** What the check printed; it has passed. */
  private static List<String> passed(String check) {
    List<String> lines =
        output
            .lines()
            .dropWhile(line -> !line.equals(NcclChecks.BEGIN + check))
            .skip(1)
            .takeWhile(line -> !line.startsWith(NcclChecks.BEGIN))
            .toList();
    assertThat(output).contains(NcclChecks.BEGIN + check);
    assertThat(lines).noneMatch(line -> line.startsWith(NcclChecks.FAILED));
    return lines;
  }

  private static List<String> calls(String check) {
    return passed(check).stream()
        .filter(line -> line.startsWith(NcclChecks.CALLED))
        .map(line -> line.substring(NcclChecks.CALLED.length()))
        .toList();
  }

  @Test
  void settingsReachNcclBeforeItStarts() {
    assertThat(calls("settings")).contains("NCCL_NSOCKS_PERTHREAD 4");
  }

  @Test
  void streamsRunInOrderAndTellHowFarTheyAre() {
    assertThat(passed("streams")).isEmpty();
  }

  @Test
  void everyCollectiveTypeAndReduction() {
    assertThat(calls("arithmetic"))
        .contains("AllReduce 2", "ReduceScatter 2", "AllGather 2", "Broadcast 2");
  }

  @Test
  void groupsAreSplitOffAndDestroyed() {
    List<String> calls = calls("groups");
    assertThat(calls).contains("CommSplit 3", "CommDestroy 0", "CommFinalize 0");
    assertThat(calls).doesNotContain("CommAbort 0");
    // the group of all, shard, replicate and again on four ranks; three on three
    assertThat(calls.stream().filter(call -> call.startsWith("CommDestroy"))).hasSize(19);
  }

  @Test
  void callsOfOneGroupAreStartedTogether() {
    // on each of two ranks: one of four collectives, and one of the broadcast before the refusal
    assertThat(calls("together").stream().filter(call -> call.equals("GroupStart 0"))).hasSize(4);
  }

  @ParameterizedTest
  @ValueSource(strings = {"order", "overlap", "memory"})
  void theDeviceWaitsAndNotTheHost(String check) {
    assertThat(calls(check)).contains("CommDestroy 0").doesNotContain("CommAbort 0");
  }

  @Test
  void misuseIsRefused() {
    assertThat(calls("misuse")).contains("CommDestroy 0");
  }

  @ParameterizedTest
  @ValueSource(strings = {"abort", "late", "late after await", "different", "missing rank"})
  void whoWaitsInVainThrowsInTimeAndFreesTheDevice(String check) {
    assertThat(calls(check)).contains("CommAbort 0");
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "init | Cannot join the NCCL group on cpu (rank 1 of 2): unhandled system error (run with NCCL_DEBUG=INFO for details) (stand-in: asked to fail)",
        "split | Cannot split off a group: invalid argument",
        "launch | NCCL did not start it: unhandled cuda error (run with NCCL_DEBUG=INFO for details) (stand-in: asked to fail)",
        "async | NCCL lost the group: internal error",
      })
  void anErrorOfOneRankEndsAll(String call, String message) {
    List<String> lines = passed("error in " + call);
    assertThat(lines.stream().filter(line -> line.startsWith("rank 1 got: ")))
        .singleElement()
        .asString()
        .contains(message);
    assertThat(lines.stream().filter(line -> line.startsWith("rank 0 got: ")))
        .singleElement()
        .asString()
        .contains("aborted by rank 1 of 2");
    assertThat(calls("error in " + call)).contains("CommAbort 0");
  }

  /** Uses NCCL where it cannot be had. */
  static final class Without {
    private Without() {}

    public static void main(String[] arguments) {
      StandIns.allow();
      try {
        NcclId.create();
      } catch (NativeLibraryException e) {
        System.out.println("refused: " + e.getMessage());
      }
      try {
        NcclRendezvous.connect(NcclId.of(new byte[NcclId.BYTES]), 0, 1, Device.CPU, 1);
      } catch (NativeLibraryException e) {
        System.out.println("refused: " + e.getMessage());
      }
    }
  }

  @Test
  void aMissingLibraryIsNamedWithWhereItWasLookedFor() {
    ChildJvm.Result result =
        ChildJvm.run(
            StandIns.environment(List.of("libcuda.so.1", "libcudart.so.13"), Map.of()),
            Without.class);
    assertThat(result.exitCode()).as(result.output()).isZero();
    assertThat(result.output().lines().filter(line -> line.startsWith("refused: ")))
        .hasSize(2)
        .allSatisfy(
            line ->
                assertThat(line)
                    .contains("Cannot load NCCL: expected libnccl.so.2, libcudart.so.13,")
                    .contains("libnccl.so.2 not found")
                    .contains("Looked in /usr/local/cuda-13.1/lib64:")
                    .contains("LD_LIBRARY_PATH"));
  }

  /** As in the default build. */
  @Test
  void withoutTheBindingsItSaysHowToBuildThem() {
    ChildJvm.Result result =
        ChildJvm.run(StandIns.classPathWithoutBindings(), Map.of(), Without.class);
    assertThat(result.exitCode()).as(result.output()).isZero();
    assertThat(result.output().lines().filter(line -> line.startsWith("refused: ")))
        .hasSize(2)
        .allSatisfy(line -> assertThat(line).contains("on the class path", "Build with -Pgpu."));
  }

  @Test
  void withoutADriverNothingIsLoaded() {
    ChildJvm.Result result = ChildJvm.run(Map.of(), Without.class);
    assertThat(result.exitCode()).as(result.output()).isZero();
    assertThat(result.output()).contains("refused: Cannot use CUDA devices: ");
  }
}
