package io.sparktrainer.torch;

import static jcuda.driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR;
import static jcuda.driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import jcuda.driver.CUcontext;
import jcuda.driver.CUdevice;
import jcuda.driver.CUresult;
import jcuda.driver.CUuuid;
import jcuda.driver.JCudaDriver;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The CUDA driver through JCuda: the only class that names JCuda. Using it where JCuda is not on
 * the class path throws a {@link LinkageError}.
 */
final class CudaDriver {
  private static final Logger LOG = LoggerFactory.getLogger(CudaDriver.class);

  /** CUDA 13.0, as the driver writes it. */
  private static final int NEEDED_VERSION = 13_000;

  private static final String NEEDED = "NVIDIA driver 580 or newer, for CUDA 13";
  private static final int NAME_BYTES = 256;

  // "0000:19:00.0" and the end
  private static final int PCI_ID_BYTES = 32;

  private CudaDriver() {}

  /** Loads and starts the driver; why that cannot be done, or null. */
  static @Nullable String problem() {
    try {
      loadAlone();
    } catch (UnsatisfiedLinkError e) {
      return missing(e);
    }
    int[] version = new int[1];
    int result = JCudaDriver.cuDriverGetVersion(version);
    if (result == CUresult.CUDA_SUCCESS && version[0] < NEEDED_VERSION) {
      return "Cannot use CUDA devices: expected a driver for CUDA 13.0 or newer, got one for CUDA %d.%d. Update to %s."
          .formatted(version[0] / 1000, version[0] % 1000 / 10, NEEDED);
    }
    result = JCudaDriver.cuInit(0);
    if (result == CUresult.CUDA_ERROR_NO_DEVICE) {
      return noDevice();
    }
    return result == CUresult.CUDA_SUCCESS
        ? null
        : "Cannot use CUDA devices: the driver does not start: %s. Look at what nvidia-smi says on this machine."
            .formatted(describe(result));
  }

  /** What is said where the driver works and shows no device. */
  static String noDevice() {
    return "Cannot use CUDA devices: expected at least one, got none from the driver. CUDA_VISIBLE_DEVICES is %s; nvidia-smi lists what the machine has."
        .formatted(CudaDevices.visibleDevices());
  }

  /** JCuda extracts its library to a fixed place, without a lock of its own. */
  private static void loadAlone() {
    Path lockFile =
        Path.of(
            System.getProperty("java.io.tmpdir"),
            ".spark-trainer-jcuda-" + System.getProperty("user.name") + ".lock");
    try (var channel =
            FileChannel.open(lockFile, StandardOpenOption.CREATE, StandardOpenOption.WRITE);
        var lock = channel.lock()) {
      JCudaDriver.setExceptionsEnabled(false);
    } catch (IOException e) {
      LOG.debug("Loading JCuda without a lock", e);
      JCudaDriver.setExceptionsEnabled(false);
    }
  }

  private static String missing(UnsatisfiedLinkError error) {
    String text = String.valueOf(error.getMessage());
    if (!text.contains("libcuda.so.1")) {
      return "Cannot use CUDA devices: JCuda's own library cannot be loaded: "
          + text.lines().findFirst().orElse("")
          + ". Put jcuda-natives for this platform on the class path, as -Pgpu does.";
    }
    return "Cannot use CUDA devices: expected libcuda.so.1 of "
        + NEEDED
        + ", got none on the library path ("
        + CudaLibraries.searched()
        + "). Install the driver, or run without CUDA.";
  }

  /** Every device that the driver shows. */
  static List<CudaDevice> devices() {
    int[] count = new int[1];
    check(JCudaDriver.cuDeviceGetCount(count), "count the devices");
    List<CudaDevice> devices = new ArrayList<>();
    for (int index = 0; index < count[0]; index++) {
      devices.add(device(index));
    }
    return devices;
  }

  private static CudaDevice device(int index) {
    CUdevice device = new CUdevice();
    check(JCudaDriver.cuDeviceGet(device, index), "open device " + index);
    byte[] name = new byte[NAME_BYTES];
    check(JCudaDriver.cuDeviceGetName(name, name.length, device), "name device " + index);
    CUuuid uuid = new CUuuid();
    check(JCudaDriver.cuDeviceGetUuid(uuid, device), "identify device " + index);
    String[] pciId = new String[1];
    check(
        JCudaDriver.cuDeviceGetPCIBusId(pciId, PCI_ID_BYTES, device),
        "find the slot of device " + index);
    long[] total = new long[1];
    check(JCudaDriver.cuDeviceTotalMem(total, device), "measure device " + index);
    Nvml.Reading reading = Nvml.read(pciId[0]);
    return new CudaDevice(
        index,
        text(name),
        attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device),
        attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device),
        text(uuid),
        pciId[0],
        total[0],
        reading == null ? freeBytes(device) : reading.freeBytes(),
        reading == null ? CudaDevice.UNKNOWN : reading.utilisationPercent());
  }

  private static int attribute(int attribute, CUdevice device) {
    int[] value = new int[1];
    check(JCudaDriver.cuDeviceGetAttribute(value, attribute, device), "describe a device");
    return value[0];
  }

  /**
   * Through the device's primary context, which libtorch uses too: the driver tells only from
   * inside one. A device so full that it holds no context has nothing free.
   */
  private static long freeBytes(CUdevice device) {
    CUcontext context = new CUcontext();
    int result = JCudaDriver.cuDevicePrimaryCtxRetain(context, device);
    if (result == CUresult.CUDA_ERROR_OUT_OF_MEMORY) {
      return 0;
    }
    check(result, "open a context");
    try {
      check(JCudaDriver.cuCtxPushCurrent(context), "enter a context");
      long[] free = new long[1];
      long[] total = new long[1];
      try {
        check(JCudaDriver.cuMemGetInfo(free, total), "measure free memory");
      } finally {
        check(JCudaDriver.cuCtxPopCurrent(new CUcontext()), "leave a context");
      }
      return free[0];
    } finally {
      check(JCudaDriver.cuDevicePrimaryCtxRelease(device), "give back a context");
    }
  }

  private static String text(byte[] bytes) {
    int end = 0;
    while (end < bytes.length && bytes[end] != 0) {
      end++;
    }
    return new String(bytes, 0, end, StandardCharsets.UTF_8);
  }

  private static String text(CUuuid uuid) {
    ByteBuffer bytes = ByteBuffer.wrap(uuid.bytes);
    return "GPU-" + new UUID(bytes.getLong(), bytes.getLong());
  }

  private static void check(int result, String verb) {
    if (result != CUresult.CUDA_SUCCESS) {
      throw new IllegalStateException(
          "Cannot %s: the CUDA driver answered %s.".formatted(verb, describe(result)));
    }
  }

  private static String describe(int result) {
    String[] text = new String[1];
    String[] name = new String[1];
    JCudaDriver.cuGetErrorName(result, name);
    JCudaDriver.cuGetErrorString(result, text);
    return "%s (%d): %s".formatted(name[0], result, text[0]);
  }
}
