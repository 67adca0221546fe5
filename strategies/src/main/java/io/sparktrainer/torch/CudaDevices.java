package io.sparktrainer.torch;

import java.util.List;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/**
 * The CUDA devices that this process sees. The first call loads the driver, if there is one; no
 * call throws because of what is missing, but {@link #requireUsable()}.
 *
 * <p>Stand-ins for devices, which tests use, count as none unless the system property {@value
 * #ALLOW_STAND_INS} is {@code true}.
 */
public final class CudaDevices {
  /** Set by tests, before the first call. */
  public static final String ALLOW_STAND_INS = "io.sparktrainer.torch.allowStandIns";

  private static final String CUDA_TORCH =
      "/org/bytedeco/pytorch/linux-x86_64-gpu/libjnitorch_cuda.so";
  private static final long MIB = 1L << 20;

  private static boolean asked;
  private static @Nullable String problem;

  private CudaDevices() {}

  /**
   * Every usable device, with its memory as it is now; empty where {@link #usable()} is false.
   * Where NVIDIA's management library is missing, asking takes about 0.3 s and 0.5 GiB of device
   * memory for a moment, for each device that this process does not use yet.
   */
  public static List<CudaDevice> list() {
    return usable() ? CudaDriver.devices() : List.of();
  }

  /** Whether tensors can live on at least one device. */
  public static boolean usable() {
    return whyUnusable() == null;
  }

  /**
   * Why no device can be used, with what to do about it; null if one can. Found out once per JVM.
   */
  public static synchronized @Nullable String whyUnusable() {
    if (!asked) {
      asked = true;
      String found = findProblem();
      problem = found == null ? null : found + NativeLibraryException.ONCE;
    }
    return problem;
  }

  /**
   * @throws NativeLibraryException with {@link #whyUnusable()}, if there is a reason
   */
  public static void requireUsable() {
    String reason = whyUnusable();
    if (reason != null) {
      throw new NativeLibraryException(reason, null);
    }
  }

  /**
   * Device {@code index}, as it is now.
   *
   * @throws NativeLibraryException if no device can be used
   * @throws IllegalArgumentException if there is none with this index
   */
  public static CudaDevice get(int index) {
    requireUsable();
    List<CudaDevice> devices = CudaDriver.devices();
    if (index < 0 || index >= devices.size()) {
      throw new IllegalArgumentException(
          "Cannot use CUDA device %d: expected one in 0..%d, as this process sees %d (CUDA_VISIBLE_DEVICES=%s)."
              .formatted(index, devices.size() - 1, devices.size(), visibleDevices()));
    }
    return devices.get(index);
  }

  /**
   * Refuses a device that is too full for what is to come.
   *
   * @param neededBytes what will be allocated on it
   * @param purpose who needs it, for the message, such as {@code "rank 3 of 8 under fsdp"}
   * @throws IllegalStateException if less is free now
   */
  public static void requireFree(CudaDevice device, long neededBytes, String purpose) {
    if (device.freeBytes() < neededBytes) {
      throw new IllegalStateException(
          "Cannot use %s for %s: expected %d MiB of free memory, got %d of %d MiB free. End what else uses the device (nvidia-smi lists it), take another, or lower the batch size."
              .formatted(
                  device.title(),
                  purpose,
                  (neededBytes + MIB - 1) / MIB,
                  device.freeBytes() / MIB,
                  device.totalBytes() / MIB));
    }
  }

  /** Whether tests have allowed stand-ins. */
  static boolean standInsAllowed() {
    return Boolean.getBoolean(ALLOW_STAND_INS);
  }

  static String visibleDevices() {
    String value = System.getenv("CUDA_VISIBLE_DEVICES");
    return value == null ? "not set" : "'" + value + "'";
  }

  private static @Nullable String findProblem() {
    try {
      String reason = CudaDriver.problem();
      return reason == null ? problemOf(CudaDriver.devices()) : reason;
    } catch (NoClassDefFoundError e) {
      return "Cannot use CUDA devices: expected JCuda and the CUDA build of libtorch on the class path, got neither. Build with -Pgpu.";
    } catch (LinkageError | RuntimeException e) {
      return "Cannot use CUDA devices: the driver cannot be asked for them: " + e + ".";
    }
  }

  private static @Nullable String problemOf(List<CudaDevice> devices) {
    if (devices.isEmpty()) {
      return CudaDriver.noDevice();
    }
    if (devices.get(0).isStandIn()) {
      return standInsAllowed()
          ? null
          : "Cannot use CUDA devices: expected NVIDIA's driver, got a stand-in for tests. Take it off LD_PRELOAD and LD_LIBRARY_PATH.";
    }
    if (CudaDevices.class.getResource(CUDA_TORCH) == null) {
      return String.format(
          Locale.ROOT,
          "Cannot use CUDA devices: this machine has %d, but the libtorch on the class path is the one for the CPU. Build with -Pgpu.",
          devices.size());
    }
    return null;
  }
}
