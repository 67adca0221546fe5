package io.sparktrainer.comm;

import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.bytedeco.cuda.global.nccl;
import org.bytedeco.pytorch.Tensor;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Collectives between ranks on CUDA devices, on NCCL; {@link NcclRendezvous} connects them.
 *
 * <p>Element types: as with {@link GlooCommunicator}. Collectives run on a CUDA stream of the
 * group's own, after what the calling thread had given libtorch to compute; whoever has awaited one
 * sees its result on every stream. A rank that fails, is lost or late aborts the group on the
 * device.
 */
public final class NcclCommunicator extends CheckedCommunicator {
  private static final Logger LOG = LoggerFactory.getLogger(NcclCommunicator.class);
  private static final long PAUSE_NANOSECONDS = 20_000;
  private static final int DRAIN_SECONDS = 5;
  private static final String LOST = "NCCL lost the group: ";

  private static final CollectiveHandle DONE =
      new CollectiveHandle() {
        @Override
        public void await() {}

        @Override
        public boolean isDone() {
          return true;
        }
      };

  private final NcclSession session;
  private final NcclGroup group;
  private final boolean root;
  private final Tensor token;
  private final Deque<NcclHandle> underWay = new ArrayDeque<>();
  private @Nullable List<Started> together;

  private record Started(NcclHandle handle, CollectiveCall call, NcclGroup.Launch launch) {}

  NcclCommunicator(NcclSession session, NcclGroup group, int rank, int worldSize, boolean root) {
    super(rank, worldSize, session.abort, new TensorChecks(session.device, "NCCL"));
    this.session = session;
    this.group = group;
    this.root = root;
    try (var scope = NativeScope.open()) {
      this.token = NativeScope.keep(Tensors.zeros(DType.INT32, session.device, 1));
    }
    session.watch(this);
  }

  /**
   * Starts all collectives that {@code calls} makes of this group as one, which saves launches
   * where there are many small ones. They can be awaited once this has returned.
   */
  public void grouped(Runnable calls) {
    if (together != null) {
      calls.run();
      return;
    }
    List<Started> started = new ArrayList<>();
    together = started;
    try {
      calls.run();
    } finally {
      together = null;
      if (!started.isEmpty()) {
        launch(started);
      }
    }
  }

  @Override
  CollectiveHandle startAllReduce(CollectiveCall call, Tensor tensor, ReduceOp op) {
    int type = type(tensor);
    int reduction = reduction(op);
    long count = tensor.numel();
    Tensor kept = FlatTensors.keep(tensor);
    return start(
        call,
        (comm, stream) ->
            nccl.ncclAllReduce(
                kept.data_ptr(), kept.data_ptr(), count, type, reduction, comm, stream),
        kept);
  }

  @Override
  CollectiveHandle startReduceScatter(
      CollectiveCall call, Tensor output, Tensor input, ReduceOp op) {
    int type = type(input);
    int reduction = reduction(op);
    long count = output.numel();
    Tensor to = FlatTensors.keep(output);
    Tensor from = FlatTensors.keep(input);
    return start(
        call,
        (comm, stream) ->
            nccl.ncclReduceScatter(
                from.data_ptr(), to.data_ptr(), count, type, reduction, comm, stream),
        to,
        from);
  }

  @Override
  CollectiveHandle startAllGather(CollectiveCall call, Tensor output, Tensor input) {
    int type = type(input);
    long count = input.numel();
    Tensor to = FlatTensors.keep(output);
    Tensor from = FlatTensors.keep(input);
    return start(
        call,
        (comm, stream) ->
            nccl.ncclAllGather(from.data_ptr(), to.data_ptr(), count, type, comm, stream),
        to,
        from);
  }

  @Override
  CollectiveHandle startBroadcast(CollectiveCall call, Tensor tensor, int sender) {
    int type = type(tensor);
    long count = tensor.numel();
    Tensor kept = FlatTensors.keep(tensor);
    return start(
        call,
        (comm, stream) ->
            nccl.ncclBroadcast(kept.data_ptr(), kept.data_ptr(), count, type, sender, comm, stream),
        kept);
  }

  @Override
  CollectiveHandle startBarrier(CollectiveCall call) {
    Tensor kept = FlatTensors.keep(token);
    return launchOne(
        call,
        (comm, stream) ->
            nccl.ncclAllReduce(
                kept.data_ptr(), kept.data_ptr(), 1, nccl.ncclInt32, nccl.ncclMax, comm, stream),
        kept);
  }

  /** Nothing is launched for tensors without elements, which are so on every rank. */
  private CollectiveHandle start(CollectiveCall call, NcclGroup.Launch launch, Tensor... tensors) {
    if (call.elements() == 0) {
      for (Tensor tensor : tensors) {
        tensor.close();
      }
      return DONE;
    }
    return launchOne(call, launch, tensors);
  }

  private CollectiveHandle launchOne(
      CollectiveCall call, NcclGroup.Launch launch, Tensor... tensors) {
    Started started = new Started(new NcclHandle(this, call, tensors), call, launch);
    if (together != null) {
      together.add(started);
    } else {
      launch(List.of(started));
    }
    return started.handle;
  }

  private void launch(List<Started> started) {
    long startNanos = System.nanoTime();
    CollectiveCall first = started.get(0).call;
    int state = group.launch(started.stream().map(Started::launch).toList());
    String refusal = NcclGroup.isError(state) ? "NCCL did not start it: " : LOST;
    while (state == nccl.ncclInProgress || NcclGroup.isError(state)) {
      String found = null;
      if (abortSignal().reason() != null) {
        found = "the group was aborted by " + abortSignal().reason();
      } else if (NcclGroup.isError(state)) {
        found = refusal + NcclLibrary.describe(state);
      } else if (Thread.currentThread().isInterrupted()) {
        found = "the thread was interrupted";
      } else if (System.nanoTime() - startNanos
          > TimeUnit.SECONDS.toNanos(session.timeoutSeconds)) {
        found = "NCCL did not start it within " + session.timeoutSeconds + " s";
      }
      if (found != null) {
        CollectiveException failure = failure(first, startNanos, found, null);
        session.abort(String.valueOf(failure.getMessage()));
        track(started); // some may have started
        throw failure;
      }
      LockSupport.parkNanos(PAUSE_NANOSECONDS);
      state = group.state();
    }
    track(started);
  }

  private void track(List<Started> started) {
    started.forEach(each -> each.handle.launched(group.mark()));
    synchronized (underWay) {
      underWay.removeIf(NcclHandle::settle);
      started.forEach(each -> underWay.add(each.handle));
    }
  }

  /** Aborts the group if NCCL reports an error, or if a collective is late. */
  void look() {
    String problem = group.problem();
    if (problem != null) {
      if (abortSignal().reason() == null) {
        session.abort(LOST + problem);
      }
      return;
    }
    synchronized (underWay) {
      underWay.removeIf(NcclHandle::settle);
      NcclHandle oldest = underWay.peek();
      String late = oldest == null ? null : oldest.overdue(session.timeoutSeconds);
      if (late != null && abortSignal().reason() == null) {
        session.abort(late);
      }
    }
  }

  /** Waits for what is under way; false if the device does not come to an end after an abort. */
  boolean settleAll() {
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(session.timeoutSeconds);
    boolean aborted = false;
    while (true) {
      synchronized (underWay) {
        underWay.removeIf(NcclHandle::settle);
        if (underWay.isEmpty()) {
          token.close();
          return true;
        }
      }
      if (!aborted && abortSignal().reason() != null) {
        aborted = true;
        group.abort();
        deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(DRAIN_SECONDS);
      }
      if (System.nanoTime() > deadline) {
        LOG.warn("Collectives of {} are still on the device; what they use is not freed", this);
        return false;
      }
      LockSupport.parkNanos(PAUSE_NANOSECONDS);
    }
  }

  private static int type(Tensor tensor) {
    return switch (DType.of(tensor)) {
      case FLOAT64 -> nccl.ncclFloat64;
      case FLOAT32 -> nccl.ncclFloat32;
      case BFLOAT16 -> nccl.ncclBfloat16;
      case FLOAT16 -> nccl.ncclFloat16;
      case INT64 -> nccl.ncclInt64;
      case INT32 -> nccl.ncclInt32;
      case INT8 -> nccl.ncclInt8;
      case UINT8, BOOL -> nccl.ncclUint8;
      case INT16 -> throw new IllegalStateException("NCCL has no int16");
    };
  }

  private static int reduction(ReduceOp op) {
    return switch (op) {
      case SUM -> nccl.ncclSum;
      case AVG -> nccl.ncclAvg;
      case MIN -> nccl.ncclMin;
      case MAX -> nccl.ncclMax;
    };
  }

  /** The lowest rank of a group is its color; ranks of groups of one are in none. */
  @Override
  Communicator split(String name, int[] ranks, int rankInGroup) {
    boolean member = ranks.length > 1;
    NcclGroup child =
        session.split(
            group,
            name,
            member ? ranks[0] : nccl.NCCL_SPLIT_NOCOLOR,
            rankInGroup,
            ranks.length,
            member);
    return child == null
        ? new LocalCommunicator(session.device, abortSignal(), session::abort)
        : new NcclCommunicator(session, child, rankInGroup, ranks.length, false);
  }

  /** Ends this group, the one it was split from, and all that were split from either. */
  @Override
  public void abort(String reason) {
    session.abort(reason);
  }

  @Override
  void release() {
    if (root) {
      session.closeAll(() -> session.close(this, group));
    } else {
      session.close(this, group);
    }
  }

  @Override
  public String toString() {
    return "the NCCL group on %s (rank %d of %d)".formatted(session.device, rank(), worldSize());
  }
}
