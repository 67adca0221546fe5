package io.sparktrainer.testing;

import io.sparktrainer.torch.CudaStream;
import io.sparktrainer.torch.NativeScope;
import java.util.concurrent.CountDownLatch;
import org.bytedeco.cuda.cudart.cudaHostFn_t;
import org.bytedeco.cuda.global.cudart;
import org.bytedeco.javacpp.Pointer;

/** Holds up the work behind it on a stream, until it is opened or closed. */
public final class Gate extends cudaHostFn_t {
  private static final long serialVersionUID = 1L;

  private final transient CountDownLatch open = new CountDownLatch(1);
  private final transient CudaStream stream;

  private Gate(CudaStream stream) {
    this.stream = stream;
    NativeScope.keep(this);
  }

  /** Queues one. */
  public static Gate on(CudaStream stream) {
    Gate gate = new Gate(stream);
    if (cudart.cudaLaunchHostFunc(stream.handle(), gate, null) != cudart.cudaSuccess) {
      throw new IllegalStateException("The gate cannot be queued.");
    }
    return gate;
  }

  @Override
  public void call(Pointer unused) {
    try {
      open.await();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  /** Lets the work behind it run. */
  public void open() {
    open.countDown();
  }

  /** Opens it, and waits for all on its stream. */
  @Override
  public void close() {
    open();
    waitFor(stream);
    super.close();
  }

  /** Waits for all that is on {@code stream}. */
  public static void waitFor(CudaStream stream) {
    CudaStream.Mark end = stream.mark();
    while (!end.isReached()) {
      Thread.onSpinWait();
    }
    end.release();
  }
}
