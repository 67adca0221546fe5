package io.sparktrainer.torch;

import org.bytedeco.cuda.cudart.CUstream_st;
import org.bytedeco.pytorch.Generator;
import org.bytedeco.pytorch.cuda.CUDAStream;
import org.bytedeco.pytorch.cuda.CUDAStreamGuard;
import org.bytedeco.pytorch.cuda.DeviceAllocator;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch_cuda;

/**
 * The CUDA side of libtorch: with {@link HostToDevice} the only user of its bindings, which the
 * build without profile {@code gpu} does not have at run time.
 */
public final class CudaTorch {
  /** What libtorch's libraries for CUDA are linked with. */
  private static final String[] LIBRARIES = {
    "libcudart.so.13",
    "libcublas.so.13",
    "libcublasLt.so.13",
    "libcudnn.so.9",
    "libcufft.so.12",
    "libcufile.so.0",
    "libcupti.so.13",
    "libcurand.so.10",
    "libcusolver.so.12",
    "libcusparse.so.12",
    "libnccl.so.2"
  };

  private CudaTorch() {}

  /**
   * Loads the CUDA side of libtorch if this JVM has not done so yet; until then libtorch knows no
   * CUDA tensors.
   *
   * @throws NativeLibraryException if no device can be used, or libtorch's libraries for CUDA
   *     cannot be loaded
   */
  public static void load() {
    NativeLibraries.load();
    CudaDevices.requireUsable();
    CudaLibraries.load(() -> torch_cuda.class, "libtorch for CUDA", LIBRARIES);
    if (torch_cuda.device_count() < 1) {
      throw new NativeLibraryException(
          "Cannot use CUDA devices: expected libtorch to find the %d that the driver lists, got none. Check that driver and CUDA libraries belong together (nvidia-smi shows the driver's CUDA version)."
                  .formatted(CudaDevices.list().size())
              + NativeLibraryException.ONCE,
          null);
    }
  }

  /** The most bytes that tensors on {@code device} have taken at a time, in this process. */
  public static long peakBytes(Device device) {
    load();
    try (var scope = NativeScope.open()) {
      return allocator().getDeviceStats(index(device)).allocated_bytes().peak();
    }
  }

  /** Bytes that tensors on {@code device} take now. */
  public static long allocatedBytes(Device device) {
    load();
    try (var scope = NativeScope.open()) {
      return allocator().getDeviceStats(index(device)).allocated_bytes().current();
    }
  }

  /** Lets {@link #peakBytes} start from what is allocated now. */
  public static void resetPeak(Device device) {
    load();
    try (var scope = NativeScope.open()) {
      allocator().resetPeakStats(index(device));
    }
  }

  private static DeviceAllocator allocator() {
    return torch_cuda.getDeviceAllocator(torch.DeviceType.CUDA);
  }

  /** Waits until {@code device} has done all work of this process. */
  public static void synchronize(Device device) {
    load();
    byte before = torch_cuda.ExchangeDevice(index(device));
    try {
      torch_cuda.device_synchronize();
    } finally {
      torch_cuda.ExchangeDevice(before);
    }
  }

  /** The stream that the calling thread's work on {@code device} goes to, in the current scope. */
  static CUDAStream currentStream(Device device) {
    return torch_cuda.getCurrentCUDAStream(index(device));
  }

  /** A stream of its own beside the current one, in the current scope. */
  static CUDAStream newStream(Device device) {
    return torch_cuda.getStreamFromPool(false, index(device));
  }

  /** The calling thread's work on {@code device} goes to {@code stream} until this is closed. */
  static CudaStream.Current makeCurrent(CUstream_st stream, Device device) {
    try (var scope = NativeScope.open()) {
      CUDAStream known = torch_cuda.getStreamFromExternal(stream, index(device));
      CUDAStreamGuard guard = NativeScope.keep(new CUDAStreamGuard(known.unwrap()));
      return guard::close;
    }
  }

  /** A source of random numbers on {@code device}, in the current scope. */
  static Generator generator(Device device) {
    load();
    return torch_cuda.make_generator_cuda(index(device));
  }

  private static byte index(Device device) {
    if (!device.isCuda()) {
      throw new IllegalArgumentException("Expected a CUDA device, got " + device + ".");
    }
    return (byte) device.index();
  }
}
