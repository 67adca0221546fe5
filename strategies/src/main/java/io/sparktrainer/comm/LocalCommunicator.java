package io.sparktrainer.comm;

import java.util.function.Consumer;
import org.bytedeco.pytorch.Tensor;

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

  private final Consumer<String> onAbort;

  public LocalCommunicator() {
    this(new AbortSignal());
  }

  private LocalCommunicator(AbortSignal abort) {
    this(abort, reason -> abort.raise("rank 0 of 1: " + reason));
  }

  /** A group of one that was split from a larger one, whose abort it shares. */
  LocalCommunicator(AbortSignal abort, Consumer<String> onAbort) {
    super(0, 1, abort);
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
  Communicator split(String name, int[] ranks, int rankInGroup) {
    return new LocalCommunicator(abortSignal(), onAbort);
  }

  @Override
  public void abort(String reason) {
    onAbort.accept(reason);
  }

  @Override
  void release() {}
}
