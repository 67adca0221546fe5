package io.sparktrainer.torch;

import org.bytedeco.cuda.global.nvml;
import org.bytedeco.cuda.nvml.nvmlDevice_st;
import org.bytedeco.cuda.nvml.nvmlMemory_t;
import org.bytedeco.cuda.nvml.nvmlUtilization_t;
import org.bytedeco.javacpp.BytePointer;
import org.bytedeco.javacpp.Loader;
import org.bytedeco.javacpp.PointerScope;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * NVIDIA's management library, which comes with the driver and tells of a device without opening a
 * context on it. Where it is missing, nothing is told.
 */
final class Nvml {
  private static final Logger LOG = LoggerFactory.getLogger(Nvml.class);

  private static @Nullable Boolean works;

  private Nvml() {}

  /**
   * A device at one moment.
   *
   * @param freeBytes memory that no process holds
   * @param utilisationPercent 0 to 100, or {@link CudaDevice#UNKNOWN}
   */
  record Reading(long freeBytes, int utilisationPercent) {}

  /** The device in slot {@code pciId}; null if the library does not tell. */
  static synchronized @Nullable Reading read(String pciId) {
    if (works == null) {
      works = start();
    }
    return works ? readStarted(pciId) : null;
  }

  private static boolean start() {
    try {
      Loader.load(nvml.class);
      int result = nvml.nvmlInit_v2();
      LOG.debug("The management library starts with {}", result);
      return result == nvml.NVML_SUCCESS;
    } catch (LinkageError | RuntimeException e) {
      LOG.debug("No management library: {}", e.toString());
      return false;
    }
  }

  private static @Nullable Reading readStarted(String pciId) {
    try (PointerScope scope = new PointerScope()) {
      nvmlDevice_st device = new nvmlDevice_st();
      nvmlMemory_t memory = new nvmlMemory_t();
      if (nvml.nvmlDeviceGetHandleByPciBusId_v2(new BytePointer(pciId), device) != nvml.NVML_SUCCESS
          || nvml.nvmlDeviceGetMemoryInfo(device, memory) != nvml.NVML_SUCCESS) {
        return null;
      }
      nvmlUtilization_t utilisation = new nvmlUtilization_t();
      int result = nvml.nvmlDeviceGetUtilizationRates(device, utilisation);
      return new Reading(
          memory._free(), result == nvml.NVML_SUCCESS ? utilisation.gpu() : CudaDevice.UNKNOWN);
    }
  }
}
