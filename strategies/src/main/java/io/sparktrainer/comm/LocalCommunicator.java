package io.sparktrainer.comm;

import io.sparktrainer.torch.CudaStream;
import io.sparktrainer.torch.Device;
import java.util.function.Consumer;
import org.bytedeco.pytorch.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * A group of one rank: every collective is done when it returns, and nothing leaves the process. It
 * checks what it is handed as a larger group would.
 */
public final class LocalCommunicator extends CheckedCommunicator {
  private static final CollectiveHandle DONE =
      new CollectiveHandle() {
        @Override
        public void await() {}

        @Override
        public boolean isDone() {
          return true;
        }
      };

  private final Device device;
  private final Consumer<String> onAbort;

  /** For tensors on the CPU. */
  public LocalCommunicator() {
    this(Device.CPU);
  }

  /** For tensors on {@code device}. */
  public LocalCommunicator(Device device) {
    this(device, new AbortSignal());
  }

  private LocalCommunicator(Device device, AbortSignal abort) {
    this(device, abort, reason -> abort.raise("rank 0 of 1: " + reason));
  }

  /** A group of one that was split from a larger one, whose abort it shares. */
  LocalCommunicator(Device device, AbortSignal abort, Consumer<String> onAbort) {
    super(0, 1, abort, new TensorChecks(device, device.isCuda() ? "NCCL" : "Gloo"));
    this.device = device;
    this.onAbort = onAbort;
  }

  @Override
  CollectiveHandle startAllReduce(CollectiveCall call, Tensor tensor, ReduceOp op) {
    return DONE;
  }

  @Override
  CollectiveHandle startReduceScatter(
      CollectiveCall call, Tensor output, Tensor input, ReduceOp op) {
    FlatTensors.copy(output, input);
    return DONE;
  }

  @Override
  CollectiveHandle startAllGather(CollectiveCall call, Tensor output, Tensor input) {
    FlatTensors.copy(output, input);
    return DONE;
  }

  @Override
  CollectiveHandle startBroadcast(CollectiveCall call, Tensor tensor, int root) {
    return DONE;
  }

  @Override
  CollectiveHandle startBarrier(CollectiveCall call) {
    return DONE;
  }

  @Override
  public @Nullable CudaStream newStream() {
    return device.isCuda() ? CudaStream.open(device) : null;
  }

  @Override
  Communicator split(String name, int[] ranks, int rankInGroup) {
    return new LocalCommunicator(device, abortSignal(), onAbort);
  }

  @Override
  public void abort(String reason) {
    onAbort.accept(reason);
  }

  @Override
  void release() {}
}
