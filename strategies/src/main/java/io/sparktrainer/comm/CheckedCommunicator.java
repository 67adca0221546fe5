package io.sparktrainer.comm;

import io.sparktrainer.comm.CollectiveCounts.Kind;
import io.sparktrainer.torch.DType;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.bytedeco.pytorch.Tensor;
import org.jspecify.annotations.Nullable;

/** What every backend shares: checking what is handed in, numbering and counting the calls. */
abstract class CheckedCommunicator implements Communicator {
  // A peer that aborts also closes its connections; its reason may arrive a little later.
  private static final long REASON_MILLISECONDS = 250;

  private final int rank;
  private final int worldSize;
  private final AbortSignal abort;
  private final TensorChecks checks;
  private final Map<Kind, Long> calls = new EnumMap<>(Kind.class);
  private final Map<Kind, Long> bytes = new EnumMap<>(Kind.class);
  private final Set<String> divisions = new HashSet<>();
  private long sequence;
  private volatile boolean closed;

  CheckedCommunicator(int rank, int worldSize, AbortSignal abort, TensorChecks checks) {
    this.rank = rank;
    this.worldSize = worldSize;
    this.abort = abort;
    this.checks = checks;
  }

  /** Makes sure that all ranks are about to do {@code call}, if the backend was asked to. */
  void agree(CollectiveCall call) {}

  abstract CollectiveHandle startAllReduce(CollectiveCall call, Tensor tensor, ReduceOp op);

  abstract CollectiveHandle startReduceScatter(
      CollectiveCall call, Tensor output, Tensor input, ReduceOp op);

  abstract CollectiveHandle startAllGather(CollectiveCall call, Tensor output, Tensor input);

  abstract CollectiveHandle startBroadcast(CollectiveCall call, Tensor tensor, int root);

  abstract CollectiveHandle startBarrier(CollectiveCall call);

  abstract Communicator split(String name, int[] ranks, int rankInGroup);

  /** Frees what the group holds; called once. */
  abstract void release();

  @Override
  public final int rank() {
    return rank;
  }

  @Override
  public final int worldSize() {
    return worldSize;
  }

  final AbortSignal abortSignal() {
    return abort;
  }

  @Override
  public final CollectiveHandle allReduce(Tensor tensor, ReduceOp op) {
    DType dtype = checks.requireReducible("all-reduce", tensor, op);
    return startAllReduce(next(Kind.ALL_REDUCE, op, dtype, tensor.numel(), -1), tensor, op);
  }

  @Override
  public final CollectiveHandle reduceScatter(Tensor output, Tensor input, ReduceOp op) {
    DType dtype = checks.requireReducible("reduce-scatter", input, op);
    checks.requireMovable("reduce-scatter into", output);
    TensorChecks.requireSameType("reduce-scatter", output, input);
    TensorChecks.requirePieces("reduce-scatter", input, "input", output, "output", worldSize);
    return startReduceScatter(
        next(Kind.REDUCE_SCATTER, op, dtype, input.numel(), -1), output, input, op);
  }

  @Override
  public final CollectiveHandle allGather(Tensor output, Tensor input) {
    DType dtype = checks.requireMovable("all-gather", input);
    checks.requireMovable("all-gather into", output);
    TensorChecks.requireSameType("all-gather", output, input);
    TensorChecks.requirePieces("all-gather", output, "output", input, "input", worldSize);
    return startAllGather(next(Kind.ALL_GATHER, null, dtype, output.numel(), -1), output, input);
  }

  @Override
  public final CollectiveHandle broadcast(Tensor tensor, int root) {
    DType dtype = checks.requireMovable("broadcast", tensor);
    if (root < 0 || root >= worldSize) {
      throw new IllegalArgumentException(
          "Cannot broadcast: expected a root in 0..%d, got %d (rank %d of %d)."
              .formatted(worldSize - 1, root, rank, worldSize));
    }
    return startBroadcast(next(Kind.BROADCAST, null, dtype, tensor.numel(), root), tensor, root);
  }

  @Override
  public final CollectiveHandle barrier() {
    return startBarrier(next(Kind.BARRIER, null, null, 0, -1));
  }

  @Override
  public final Communicator subGroup(String name, int... ranks) {
    requireOpen("split off group '" + name + "'");
    int place = Arrays.binarySearch(ranks, rank);
    boolean ascending = ranks.length > 0 && ranks[0] >= 0;
    for (int i = 1; i < ranks.length; i++) {
      ascending &= ranks[i - 1] < ranks[i];
    }
    if (!ascending || place < 0 || ranks[ranks.length - 1] >= worldSize) {
      throw new IllegalArgumentException(
          "Cannot split off group '%s': expected ascending ranks in 0..%d with %d among them, got %s"
                  .formatted(name, worldSize - 1, rank, Arrays.toString(ranks))
              + " (rank %d of %d).".formatted(rank, worldSize));
    }
    if (name.isBlank() || !divisions.add(name)) {
      throw new IllegalArgumentException(
          "Cannot split off group '%s': expected a name not used before in this group (rank %d of %d)."
              .formatted(name, rank, worldSize));
    }
    return split(name, ranks, place);
  }

  @Override
  public final synchronized CollectiveCounts counts() {
    return new CollectiveCounts(calls, bytes);
  }

  @Override
  public final void close() {
    synchronized (this) {
      if (closed) {
        return;
      }
      closed = true;
    }
    release();
  }

  private CollectiveCall next(
      Kind kind, @Nullable ReduceOp op, @Nullable DType dtype, long elements, int root) {
    CollectiveCall call = number(kind, op, dtype, elements, root);
    agree(call);
    return call;
  }

  private synchronized CollectiveCall number(
      Kind kind, @Nullable ReduceOp op, @Nullable DType dtype, long elements, int root) {
    CollectiveCall call = new CollectiveCall(sequence, kind, op, dtype, elements, root);
    requireOpen("start " + call.title());
    sequence++;
    calls.merge(kind, 1L, Long::sum);
    bytes.merge(kind, call.bytes(), Long::sum);
    return call;
  }

  /** What a collective that did not complete throws. */
  final CollectiveException failure(
      CollectiveCall call, long startNanos, String found, @Nullable Throwable cause) {
    return new CollectiveException(
        "Cannot complete %s (rank %d of %d, after %s): %s."
            .formatted(call, rank, worldSize, NativeErrors.secondsSince(startNanos), found),
        cause);
  }

  /** The same, where native code gave up: because of an abort, or by itself. */
  final CollectiveException nativeFailure(
      CollectiveCall call, long startNanos, int timeoutSeconds, @Nullable Throwable cause) {
    String reason = abort.await(REASON_MILLISECONDS);
    String found =
        reason != null
            ? "the group was aborted by " + reason
            : "expected every rank to take part within %d s, got: %s"
                .formatted(timeoutSeconds, NativeErrors.firstLine(cause));
    return failure(call, startNanos, found, cause);
  }

  @Override
  public final void requireIntact() {
    requireNotAborted("use the results of collectives");
  }

  private void requireNotAborted(String verb) {
    String reason = abort.reason();
    if (reason != null) {
      throw new CollectiveException(
          "Cannot %s: the group was aborted by %s (rank %d of %d)."
              .formatted(verb, reason, rank, worldSize),
          null);
    }
  }

  private void requireOpen(String verb) {
    requireNotAborted(verb);
    if (closed) {
      throw new IllegalStateException(
          "Cannot %s: the communicator is closed (rank %d of %d)."
              .formatted(verb, rank, worldSize));
    }
  }
}
