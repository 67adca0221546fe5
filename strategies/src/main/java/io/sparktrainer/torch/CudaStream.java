package io.sparktrainer.torch;

import java.util.ArrayDeque;
import java.util.Deque;
import org.bytedeco.cuda.cudart.CUevent_st;
import org.bytedeco.cuda.cudart.CUstream_st;
import org.bytedeco.cuda.global.cudart;
import org.jspecify.annotations.Nullable;

/**
 * A queue of work on a CUDA device, beside the ones that libtorch computes on. Every call makes the
 * device the calling thread's current one.
 *
 * <p>With a stand-in for a device tensors are in host memory, and the calling thread itself
 * computes: no work of libtorch's is ever queued, and only the thread can wait. Where a stream was
 * made current, it counts as the one that the thread computes on.
 */
public final class CudaStream implements AutoCloseable {
  private static final ThreadLocal<@Nullable CudaStream> CURRENT_OF_STAND_IN = new ThreadLocal<>();

  private final int device;
  private final boolean libtorchComputesThere;
  private final CUstream_st stream;
  private final Deque<CUevent_st> unused = new ArrayDeque<>();
  private boolean closed;

  private CudaStream(int device, boolean libtorchComputesThere, CUstream_st stream) {
    this.device = device;
    this.libtorchComputesThere = libtorchComputesThere;
    this.stream = stream;
  }

  /** A point in the queue. */
  public final class Mark {
    private final CUevent_st event;

    private Mark(CUevent_st event) {
      this.event = event;
    }

    /**
     * Whether all work that was queued before it is done.
     *
     * @throws IllegalStateException if the device reports that some of it failed
     */
    public boolean isReached() {
      use();
      int result = cudart.cudaEventQuery(event);
      if (result == cudart.cudaErrorNotReady) {
        cudart.cudaGetLastError(); // which it sets, too
        return false;
      }
      check(result, "look at work on");
      return true;
    }

    /**
     * Lets what the calling thread gives libtorch to compute from now on wait until the mark is
     * reached. The thread does not wait.
     *
     * @return false, and nothing was done, if libtorch computes on the calling thread itself, with
     *     a stand-in for a device
     */
    public boolean leadLibtorch() {
      if (!isQueued()) {
        return false;
      }
      use();
      try (var scope = NativeScope.open()) {
        check(cudart.cudaStreamWaitEvent(libtorchStream(), event, 0), "order libtorch's work on");
      }
      return true;
    }

    /** Gives the mark back; it must not be used again. */
    public void release() {
      synchronized (unused) {
        unused.push(event);
      }
    }
  }

  /**
   * Opens a stream on the device where tensors on {@code device} are.
   *
   * @param device a CUDA device, or the CPU where stand-ins are allowed
   * @throws NativeLibraryException if CUDA cannot be used
   * @throws IllegalArgumentException if {@code device} is none of these
   */
  public static CudaStream open(Device device) {
    int index = indexOf(device);
    if (device.isCuda()) {
      CudaTorch.load();
    }
    CudaLibraries.load(() -> cudart.class, "the CUDA runtime", "libcudart.so.13", "libcuda.so.1");
    check(cudart.cudaSetDevice(index), index, "use");
    CUstream_st stream = new CUstream_st();
    NativeScope.keep(stream);
    check(
        cudart.cudaStreamCreateWithFlags(stream, cudart.cudaStreamNonBlocking),
        index,
        "open a stream on");
    return new CudaStream(index, device.isCuda(), stream);
  }

  private static int indexOf(Device device) {
    if (device.isCuda()) {
      CudaDevice found = CudaDevices.get(device.index());
      if (!found.isStandIn()) {
        return found.index();
      }
    } else {
      CudaDevices.requireUsable();
      if (CudaDevices.get(0).isStandIn()) {
        return 0;
      }
    }
    throw new IllegalArgumentException(
        "Cannot open a CUDA stream: expected a CUDA device, or the CPU with a stand-in for one, got "
            + device
            + ".");
  }

  /** Makes the stream's device the calling thread's current one. */
  public void use() {
    check(cudart.cudaSetDevice(device), "use");
  }

  /** The native stream, for as long as this one is open. */
  public CUstream_st handle() {
    return stream;
  }

  /**
   * Lets what is queued here from now on wait for what the calling thread has given libtorch to
   * compute so far.
   */
  public void followLibtorch() {
    Mark soFar = markLibtorch();
    follow(soFar);
    soFar.release();
  }

  /** Lets what is queued here from now on wait until {@code mark}, of any stream, is reached. */
  public void follow(Mark mark) {
    use();
    check(cudart.cudaStreamWaitEvent(stream, mark.event, 0), "order work on");
  }

  /** Marks the end of what the calling thread has given libtorch to compute so far. */
  public Mark markLibtorch() {
    use();
    CUevent_st event = event();
    try (var scope = NativeScope.open()) {
      check(cudart.cudaEventRecord(event, libtorchStream()), "mark libtorch's stream of");
    }
    return new Mark(event);
  }

  /** Whether libtorch queues what the calling thread gives it, so that streams can wait for it. */
  private boolean isQueued() {
    return libtorchComputesThere || CURRENT_OF_STAND_IN.get() != null;
  }

  /** Libtorch's current stream; with a stand-in the default one, on which nothing ever is. */
  private @Nullable CUstream_st libtorchStream() {
    if (libtorchComputesThere) {
      return CudaTorch.currentStream(Device.cuda(device)).stream();
    }
    CudaStream current = CURRENT_OF_STAND_IN.get();
    return current == null ? null : current.stream;
  }

  /** The calling thread's work goes to this stream until the result is closed, by that thread. */
  public Current makeCurrent() {
    use();
    if (libtorchComputesThere) {
      return CudaTorch.makeCurrent(stream, Device.cuda(device));
    }
    CudaStream before = CURRENT_OF_STAND_IN.get();
    CURRENT_OF_STAND_IN.set(this);
    return () -> CURRENT_OF_STAND_IN.set(before);
  }

  /** A stretch of the calling thread's work. */
  public interface Current extends AutoCloseable {
    @Override
    void close();
  }

  /** Marks the end of what is queued now. */
  public Mark mark() {
    use();
    CUevent_st event = event();
    check(cudart.cudaEventRecord(event, stream), "mark the end of work on");
    return new Mark(event);
  }

  private CUevent_st event() {
    synchronized (unused) {
      CUevent_st event = unused.poll();
      if (event != null) {
        return event;
      }
    }
    CUevent_st event = NativeScope.keep(new CUevent_st());
    check(
        cudart.cudaEventCreateWithFlags(event, cudart.cudaEventDisableTiming),
        "make a mark for work on");
    return event;
  }

  /** Waits for what is queued and gives the stream back. Does nothing the second time. */
  @Override
  public void close() {
    synchronized (unused) {
      if (closed) {
        return;
      }
      closed = true;
      use();
      for (CUevent_st event : unused) {
        cudart.cudaEventDestroy(event);
        event.close();
      }
      unused.clear();
    }
    cudart.cudaStreamDestroy(stream);
    stream.close();
  }

  private void check(int result, String verb) {
    check(result, device, verb);
  }

  private static void check(int result, int device, String verb) {
    if (result != cudart.cudaSuccess) {
      cudart.cudaGetLastError();
      throw new IllegalStateException(
          "Cannot %s CUDA device %d: %s (%s)."
              .formatted(
                  verb,
                  device,
                  cudart.cudaGetErrorString(result).getString(),
                  cudart.cudaGetErrorName(result).getString()));
    }
  }
}
