package io.sparktrainer.comm;

import io.sparktrainer.torch.CudaStream;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.bytedeco.cuda.cudart.CUstream_st;
import org.bytedeco.cuda.global.nccl;
import org.bytedeco.cuda.nccl.ncclComm;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.pytorch.Tensor;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Collectives between ranks on CUDA devices, on NCCL; {@link NcclRendezvous} connects them.
 *
 * <p>Element types: as with {@link GlooCommunicator}. Collectives run on a CUDA stream of the
 * group's own, after what the calling thread had given libtorch to compute, and {@link
 * CollectiveHandle#await} makes the calling thread's stream wait for one. A rank that fails, is
 * lost or late aborts the group on the device, also when nobody waits for a collective.
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
  private final Deque<NcclHandle> underWay = new ArrayDeque<>(); // in the order of the stream
  private long lastEndNanos = System.nanoTime();
  private @Nullable List<Queued> together;

  /** One of NCCL's collectives; returns its result. */
  private interface Collective {
    int queue(Pointer from, Pointer to, long count, int type, ncclComm comm, CUstream_st stream);
  }

  private record Queued(NcclHandle handle, NcclGroup.Launch launch) {}

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

  @Override
  CollectiveHandle startAllReduce(CollectiveCall call, Tensor tensor, ReduceOp op) {
    return start(call, tensor, tensor, tensor.numel(), reducing(op, nccl::ncclAllReduce));
  }

  @Override
  CollectiveHandle startReduceScatter(
      CollectiveCall call, Tensor output, Tensor input, ReduceOp op) {
    return start(call, input, output, output.numel(), reducing(op, nccl::ncclReduceScatter));
  }

  @Override
  CollectiveHandle startAllGather(CollectiveCall call, Tensor output, Tensor input) {
    return start(call, input, output, input.numel(), nccl::ncclAllGather);
  }

  @Override
  CollectiveHandle startBroadcast(CollectiveCall call, Tensor tensor, int sender) {
    return start(
        call,
        tensor,
        tensor,
        tensor.numel(),
        (from, to, count, type, comm, stream) ->
            nccl.ncclBroadcast(from, to, count, type, sender, comm, stream));
  }

  @Override
  CollectiveHandle startBarrier(CollectiveCall call) {
    return start(call, token, token, 1, reducing(ReduceOp.MAX, nccl::ncclAllReduce));
  }

  private interface Reducing {
    int queue(
        Pointer from, Pointer to, long count, int type, int op, ncclComm comm, CUstream_st stream);
  }

  private static Collective reducing(ReduceOp op, Reducing collective) {
    int reduction = reduction(op);
    return (from, to, count, type, comm, stream) ->
        collective.queue(from, to, count, type, reduction, comm, stream);
  }

  /**
   * Nothing is queued for tensors without elements, which are so on every rank.
   *
   * @param count elements, as NCCL counts them for this collective
   */
  private CollectiveHandle start(
      CollectiveCall call, Tensor input, Tensor output, long count, Collective collective) {
    if (count == 0) {
      return DONE;
    }
    int type = type(input);
    Tensor from = FlatTensors.keep(input);
    Tensor to = FlatTensors.keep(output);
    NcclHandle handle = new NcclHandle(this, call, System.nanoTime(), from, to);
    NcclGroup.Launch launch =
        (comm, stream) ->
            collective.queue(from.data_ptr(), to.data_ptr(), count, type, comm, stream);
    if (together == null) {
      launch(launch, List.of(handle));
    } else {
      together.add(new Queued(handle, launch));
    }
    return handle;
  }

  @Override
  public void grouped(Runnable calls) {
    if (together != null) {
      calls.run();
      return;
    }
    List<Queued> queued = new ArrayList<>();
    together = queued;
    try {
      calls.run();
    } catch (RuntimeException | Error e) {
      try {
        launchTogether(queued);
      } catch (CollectiveException also) {
        e.addSuppressed(also);
      }
      throw e;
    }
    launchTogether(queued);
  }

  private void launchTogether(List<Queued> queued) {
    together = null;
    if (!queued.isEmpty()) {
      launch(
          NcclGroup.Launch.grouped(queued.stream().map(Queued::launch).toList()),
          queued.stream().map(Queued::handle).toList());
    }
  }

  private void launch(NcclGroup.Launch launch, List<NcclHandle> handles) {
    long startNanos = System.nanoTime();
    CollectiveException failure =
        awaitQueued(handles.get(0).call(), startNanos, group.launch(launch));
    synchronized (underWay) {
      for (NcclHandle handle : handles) {
        handle.queued(group.mark()); // some of it may be on the stream although it failed
        underWay.add(handle);
      }
      settleEnded();
    }
    if (failure != null) {
      throw failure;
    }
  }

  /** Waits until a collective is on the stream; why it is not, after an abort of the group. */
  private @Nullable CollectiveException awaitQueued(
      CollectiveCall call, long startNanos, int result) {
    int state = result;
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
        CollectiveException failure = failure(call, startNanos, found, null);
        session.abort(String.valueOf(failure.getMessage()));
        return failure;
      }
      LockSupport.parkNanos(PAUSE_NANOSECONDS);
      state = group.state();
    }
    return null;
  }

  /** Forgets collectives that have ended; the caller holds their lock. */
  private void settleEnded() {
    while (!underWay.isEmpty() && underWay.element().settle()) {
      underWay.remove();
      lastEndNanos = System.nanoTime();
    }
  }

  /** Aborts the group if NCCL reports an error, or if a collective is late. */
  void look() {
    String problem = group.problem();
    String found = null;
    synchronized (underWay) {
      settleEnded();
      NcclHandle oldest = underWay.peek();
      if (problem != null) {
        found =
            "%s%s%s. See the other ranks' logs for what came first"
                .formatted(LOST, problem, oldest == null ? "" : ", in " + oldest.call());
      } else if (oldest != null) {
        found = oldest.overdue(lastEndNanos, session.timeoutSeconds);
      }
    }
    if (found != null && abortSignal().reason() == null) {
      session.abort(found);
    }
  }

  /** Waits for what is under way; false if the device does not come to an end after an abort. */
  boolean settleAll() {
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(session.timeoutSeconds);
    boolean aborted = false;
    while (true) {
      synchronized (underWay) {
        settleEnded();
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

  @Override
  public CudaStream newStream() {
    return CudaStream.open(session.device);
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
