package io.sparktrainer.torch;

import java.util.ArrayList;
import java.util.List;
import org.bytedeco.pytorch.MemoryFormatOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.cuda.CUDAEvent;
import org.bytedeco.pytorch.cuda.CUDAStream;
import org.bytedeco.pytorch.cuda.CUDAStreamGuard;

/**
 * Copies tensors to a GPU on a stream of its own, so that a copy runs while the device computes.
 *
 * <p>Values go through pinned memory, which libtorch's allocator lends out and takes back once the
 * device has read it: the tensors that were handed in may change as soon as {@link #start} returns.
 */
public final class HostToDevice implements AutoCloseable {
  private final Device device;
  private final CUDAStream copies;

  /**
   * @throws NativeLibraryException if the device cannot be used
   */
  public HostToDevice(Device device) {
    CudaTorch.load();
    this.device = device;
    try (var scope = NativeScope.open()) {
      this.copies = NativeScope.keep(CudaTorch.newStream(device));
    }
  }

  /** Starts to copy {@code tensors}, from host memory. */
  public Copy start(List<Tensor> tensors) {
    List<Tensor> arriving = new ArrayList<>();
    try (var scope = NativeScope.open()) {
      try (var guard = new CUDAStreamGuard(copies.unwrap())) {
        for (Tensor tensor : tensors) {
          Tensor staged = tensor.pin_memory();
          arriving.add(
              NativeScope.keep(
                  staged.to(
                      device.toNative(),
                      tensor.scalar_type(),
                      true, // without waiting
                      false,
                      new MemoryFormatOptional())));
        }
        CUDAEvent arrived = NativeScope.keep(new CUDAEvent());
        arrived.record(copies);
        return new Copy(device, arriving, arrived);
      }
    } catch (RuntimeException | Error e) {
      arriving.forEach(Tensor::close);
      throw e;
    }
  }

  @Override
  public void close() {
    copies.close();
  }

  /** Tensors on their way. */
  public static final class Copy implements AutoCloseable {
    private final Device device;
    private final List<Tensor> arriving;
    private final CUDAEvent arrived;

    private Copy(Device device, List<Tensor> arriving, CUDAEvent arrived) {
      this.device = device;
      this.arriving = List.copyOf(arriving);
      this.arrived = arrived;
    }

    /**
     * The tensors on the device, in the order in which they were handed in. The device's next work
     * waits for them, this thread does not. They are freed by {@link #close()}.
     */
    public List<Tensor> tensors() {
      try (var scope = NativeScope.open()) {
        CUDAStream computing = CudaTorch.currentStream(device);
        arrived.block(computing);
        // Their memory goes back to the copying stream, which then has to wait for this one.
        arriving.forEach(tensor -> tensor.record_stream(computing.unwrap()));
        return arriving;
      }
    }

    @Override
    public void close() {
      arriving.forEach(Tensor::close);
      arrived.close();
    }
  }
}
