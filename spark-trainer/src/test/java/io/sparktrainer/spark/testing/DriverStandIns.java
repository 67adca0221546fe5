package io.sparktrainer.spark.testing;

import io.sparktrainer.testing.StandIns;
import io.sparktrainer.torch.CudaDevices;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.global.torch;
import org.opentest4j.TestAbortedException;

/**
 * Executors with stand-ins for CUDA's driver and runtime but none for NCCL. They are not used
 * unless a test allows it; where they cannot be built there are none.
 */
public final class DriverStandIns implements SparkTest.Options {
  /** What {@code CUDA_VISIBLE_DEVICES} is in the executors. */
  public static final String VISIBLE = "6,7";

  private static final String DEVICES = "STANDIN_DEVICES";
  private static final String ENOUGH_DEVICES = "8";

  @Override
  public Map<String, String> options() {
    Map<String, String> options = new HashMap<>();
    try {
      environment().forEach((name, value) -> options.put("spark.executorEnv." + name, value));
    } catch (TestAbortedException e) {
      return Map.of();
    }
    return options;
  }

  private static Map<String, String> environment() {
    return StandIns.environment(
        List.of("libcuda.so.1", "libcudart.so.13"),
        Map.of("CUDA_VISIBLE_DEVICES", VISIBLE, DEVICES, ENOUGH_DEVICES));
  }

  /**
   * @throws TestAbortedException if the executors have none
   */
  public static void require() {
    Map<String, String> unused = environment();
  }

  /**
   * Called in an executor: it sees stand-ins from now on, as a new process with this variable in
   * its environment would.
   */
  public static void use(String variable, String value) {
    torch.set_env(DEVICES, ENOUGH_DEVICES, true);
    torch.set_env(variable, value, true);
    StandIns.allow();
    forget();
  }

  /** Called in an executor: it sees none any more. */
  public static void leave() {
    System.clearProperty(CudaDevices.ALLOW_STAND_INS);
    forget();
  }

  /** A JVM asks the driver once; tests have no time for one JVM per answer. */
  private static void forget() {
    try {
      var asked = CudaDevices.class.getDeclaredField("asked");
      asked.setAccessible(true);
      asked.setBoolean(null, false);
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }
}
