package io.sparktrainer.torch;

import static org.assertj.core.api.Assertions.assertThat;

import io.sparktrainer.testing.ChildJvm;
import io.sparktrainer.testing.StandIns;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The driver through JCuda, with stand-ins for devices, or without any. */
class TestCudaDevices {
  /** Prints what this JVM sees; allows stand-ins if its argument says so. */
  static final class Look {
    private Look() {}

    public static void main(String[] arguments) {
      if (arguments[0].equals("allow")) {
        StandIns.allow();
      }
      System.out.println("usable: " + CudaDevices.usable());
      System.out.println("why: " + CudaDevices.whyUnusable());
      for (CudaDevice device : CudaDevices.list()) {
        System.out.println(device + " on " + device.device());
      }
      try {
        CudaDevice last = CudaDevices.get(1);
        System.out.println("last: " + last.title());
        CudaDevices.requireFree(last, 1L << 30, "rank 1 of 2");
        CudaDevices.requireFree(last, 100L << 30, "rank 1 of 2");
      } catch (NativeLibraryException | IllegalArgumentException | IllegalStateException e) {
        System.out.println("refused: " + e.getMessage());
      }
    }
  }

  private static String look(String allow, String... variables) {
    return look(List.of("libcuda.so.1"), allow, variables);
  }

  private static String look(List<String> libraries, String allow, String... variables) {
    Map<String, String> more = new HashMap<>();
    for (int i = 0; i < variables.length; i += 2) {
      more.put(variables[i], variables[i + 1]);
    }
    ChildJvm.Result result = ChildJvm.run(StandIns.environment(libraries, more), Look.class, allow);
    assertThat(result.exitCode()).as(result.output()).isZero();
    return result.output();
  }

  @Test
  void listsDevicesWithMemory() {
    assertThat(look("allow"))
        .contains("usable: true", "why: null", "last: GPU 1 (Stand-in GPU, 0000:11:00.0)")
        .contains(
            "CudaDevice[index=0, name=Stand-in GPU, major=9, minor=0,"
                + " uuid=GPU-a0a0a0a0-a0a0-a0a0-a0a0-a0a0a0a0a000, pciId=0000:10:00.0,"
                + " totalBytes=8589934592, freeBytes=6442450944, utilisationPercent=-1] on cpu")
        .contains("uuid=GPU-a0a0a0a0-a0a0-a0a0-a0a0-a0a0a0a0a001, pciId=0000:11:00.0")
        .contains(
            "refused: Cannot use GPU 1 (Stand-in GPU, 0000:11:00.0) for rank 1 of 2: expected"
                + " 102400 MiB of free memory, got 6144 of 8192 MiB free.");
  }

  @Test
  void theManagementLibraryTellsUtilisation() {
    assertThat(look(List.of("libcuda.so.1", "libnvidia-ml.so.1"), "allow", "STANDIN_FREE_MIB", "5"))
        .contains("freeBytes=5242880, utilisationPercent=41]")
        .contains("freeBytes=5242880, utilisationPercent=42]");
  }

  @Test
  void anIndexFollowsTheVisibleDevices() {
    assertThat(look("allow", "STANDIN_DEVICES", "4", "CUDA_VISIBLE_DEVICES", "3"))
        .contains("index=0", "uuid=GPU-a0a0a0a0-a0a0-a0a0-a0a0-a0a0a0a0a003")
        .contains(
            "refused: Cannot use CUDA device 1: expected one in 0..0, as this process sees 1"
                + " (CUDA_VISIBLE_DEVICES='3').");
  }

  @Test
  void aFullDeviceHasNothingFree() {
    assertThat(look("allow", "STANDIN_FREE_MIB", "0"))
        .contains("freeBytes=0", "expected 1024 MiB of free memory, got 0 of 8192 MiB free");
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "allow | STANDIN_DEVICES | 0 | expected at least one, got none from the driver. CUDA_VISIBLE_DEVICES is not set",
        "allow | CUDA_VISIBLE_DEVICES | '' | CUDA_VISIBLE_DEVICES is ''; nvidia-smi lists what the machine has.",
        "allow | STANDIN_DRIVER | 12040 | expected a driver for CUDA 13.0 or newer, got one for CUDA 12.4. Update to NVIDIA driver 580 or newer",
        "allow | STANDIN_CUINIT | 803 | the driver does not start: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803): system has unsupported",
        "refuse | STANDIN_DEVICES | 2 | expected NVIDIA's driver, got a stand-in for tests.",
      })
  void saysWhyNoDeviceCanBeUsed(String allow, String variable, String value, String why) {
    assertThat(look(allow, variable, value))
        .contains("usable: false", why, "refused: Cannot use CUDA devices: ")
        .doesNotContain("CudaDevice[");
  }

  @Test
  void withoutADriverItSaysWhichIsNeededAndWhereItLooked() {
    ChildJvm.Result result = ChildJvm.run(Map.of(), Look.class, "allow");
    if (CudaDevices.list().isEmpty()) {
      assertThat(result.output())
          .contains(
              "usable: false", "why: Cannot use CUDA devices: expected libcuda.so.1 of NVIDIA")
          .contains("driver 580 or newer", "/usr/local/cuda/lib64");
    }
    assertThat(result.exitCode()).as(result.output()).isZero();
  }

  /** As in the default build, which has neither JCuda nor the bindings for CUDA. */
  @Test
  void withoutTheBindingsItSaysHowToBuildThem() {
    ChildJvm.Result result =
        ChildJvm.run(StandIns.classPathWithoutBindings(), Map.of(), Look.class, "allow");
    assertThat(result.exitCode()).as(result.output()).isZero();
    assertThat(result.output())
        .contains("usable: false")
        .contains(
            "why: Cannot use CUDA devices: expected JCuda and the CUDA build of libtorch on the"
                + " class path, got neither. Build with -Pgpu.");
  }
}
