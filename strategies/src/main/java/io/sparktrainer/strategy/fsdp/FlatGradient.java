package io.sparktrainer.strategy.fsdp;

import io.sparktrainer.comm.CollectiveHandle;
import io.sparktrainer.comm.ReduceOp;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import org.bytedeco.pytorch.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * The gradient of a flat parameter: whole on this rank while backward adds it up, then reduced to
 * this rank's shard of the mean over all ranks.
 *
 * <p>{@link #attach} makes views of one flat, cleared tensor the parameters' {@code grad()}, so
 * libtorch adds each gradient up in place, in the type that is reduced, and the reduction starts
 * with no copy. Which parameters got a gradient shows in the views' version counters, without a
 * hook per parameter. A parameter without one takes part with zeros, so sizes are the same on all
 * ranks.
 */
final class FlatGradient implements AutoCloseable {
  /** Where the gradient of the current step is. */
  enum State {
    /** There is none, or it is reduced and in the shard. */
    IDLE,
    /** The parameters' gradients are views of the whole. */
    ATTACHED,
    /** A reduce-scatter over the shard group is under way. */
    SCATTERING,
    /** An all-reduce of the shard over the replicas is under way. */
    REPLICATING
  }

  private final FlatParameter parameter;
  private final ShardGroups groups;
  private final DType reducedType;
  private final BufferPool pool;
  private final DivideFactors factors;
  private final long[] versions;
  private final boolean[] used;
  private final boolean[] trainable;
  private final List<Tensor> slots = new ArrayList<>(); // views of the whole, or of the shard
  private final List<Tensor> shardSlots = new ArrayList<>();
  private @Nullable Tensor shard; // [shardNumel], beside the parameter's shard
  private @Nullable LoanedTensor whole; // [paddedNumel]; null where the shard is the whole
  private @Nullable LoanedTensor piece; // [shardNumel], where the shard can't be reduced into
  private State state = State.IDLE;
  private boolean summed;
  private CollectiveHandle reduction = NoCollective.INSTANCE;

  /**
   * Holds no memory before the first {@link #attach}.
   *
   * @param reducedType type in which gradients are added up and reduced
   */
  FlatGradient(FlatParameter parameter, DType reducedType, ShardGroups groups, BufferPool pool) {
    this.parameter = parameter;
    this.groups = groups;
    this.reducedType = reducedType;
    this.pool = pool;
    this.factors =
        reducedType == DType.FLOAT16
            ? DivideFactors.of(groups.world().worldSize())
            : new DivideFactors(1, 1);
    int count = parameter.names().size();
    this.versions = new long[count];
    this.used = new boolean[count];
    this.trainable = new boolean[count];
    refreshTrainable();
  }

  /**
   * Looks again which parameters are trainable.
   *
   * @return whether that has changed
   */
  boolean refreshTrainable() {
    boolean changed = false;
    for (int i = 0; i < trainable.length; i++) {
      boolean now = parameter.parameters().get(i).requires_grad();
      changed |= now != trainable[i];
      trainable[i] = now;
    }
    return changed;
  }

  boolean isTrainable(int index) {
    return trainable[index];
  }

  /** Whether some parameter is trainable, and the gradient is reduced at all. */
  boolean isNeeded() {
    for (boolean each : trainable) {
      if (each) {
        return true;
      }
    }
    return false;
  }

  State state() {
    return state;
  }

  /**
   * Makes sure that the memory for the shard exists. Between the short-lived tensors of a backward
   * pass, memory that stays would leave holes that the system doesn't get back.
   */
  void prepare() {
    if (shard == null && isNeeded()) {
      allocate();
    }
  }

  /** Lets backward add gradients up here, to what this step has added up already. */
  void attach() {
    if (state == State.ATTACHED) {
      return;
    }
    requireState(State.IDLE);
    clearFlat();
    for (int i = 0; i < trainable.length; i++) {
      if (trainable[i]) {
        Tensors.setGrad(parameter.parameters().get(i), slots.get(i));
        versions[i] = slots.get(i)._version();
      }
    }
    state = State.ATTACHED;
  }

  private void clearFlat() {
    Tensor gradient = shard == null ? allocate() : shard;
    if (whole != null) {
      whole.acquire();
      whole.tensor().zero_();
    } else if (!summed) {
      gradient.zero_();
    }
  }

  private Tensor allocate() {
    FlatLayout layout = parameter.layout();
    try (var scope = NativeScope.open()) {
      Tensor gradient =
          NativeScope.keep(
              parameter.home().zeros(parameter.dtype(), pool.device(), layout.shardNumel()));
      boolean resident = groups.shardCount() == 1 && isReducedInPlace();
      if (!resident) {
        whole = new LoanedTensor(pool, reducedType, layout.paddedNumel());
      }
      Tensor flat = whole == null ? gradient : whole.tensor();
      for (int i = 0; i < trainable.length; i++) {
        Tensor view = flat.narrow(0, layout.offset(i), layout.numel(i));
        // variable_data() has a version counter of its own.
        slots.add(
            NativeScope.keep(new Tensor(view.view(parameter.shapes().get(i)).variable_data())));
        FlatLayout.Slice slice = layout.slice(i, groups.shardIndex());
        shardSlots.add(NativeScope.keep(gradient.narrow(0, slice.offsetInShard(), slice.length())));
      }
      if (whole != null) {
        whole.surrender();
      }
      shard = gradient;
      return gradient;
    }
  }

  /** Whether the shard has the place and type of what a reduction leaves. */
  private boolean isReducedInPlace() {
    return parameter.dtype() == reducedType && parameter.home() == ShardHome.DEVICE;
  }

  /** Whether libtorch left a gradient in a parameter that was not attached. */
  boolean hasStray() {
    if (state == State.ATTACHED) {
      return false;
    }
    for (Tensor each : parameter.parameters()) {
      try (var scope = NativeScope.open()) {
        if (each.grad().defined()) {
          return true;
        }
      }
    }
    return false;
  }

  /** Starts to reduce what was added up, zeros if nothing was, over the shard group. */
  void startReduction() {
    attach();
    detach();
    Tensor flat = whole == null ? requireShard() : whole.tensor();
    if (factors.before() != 1) {
      flat.div_(Tensors.scalar(factors.before()));
    }
    state = State.SCATTERING;
    if (whole != null && groups.shardCount() > 1 && parameter.layout().shardNumel() > 0) {
      reduction = groups.reduce().reduceScatter(target(), whole.owned(), op());
    }
  }

  private void detach() {
    try (var scope = NativeScope.open()) {
      Tensor none = new Tensor();
      for (int i = 0; i < trainable.length; i++) {
        if (trainable[i]) {
          used[i] |= slots.get(i)._version() != versions[i];
          Tensors.setGrad(parameter.parameters().get(i), none);
        }
      }
    }
  }

  /** Where the reduced shard arrives: the shard itself if it may be overwritten. */
  private Tensor target() {
    if (whole == null || reducesIntoShard()) {
      return requireShard();
    }
    if (groups.shardCount() == 1) {
      return whole.owned();
    }
    if (piece == null) {
      piece = new LoanedTensor(pool, reducedType, parameter.layout().shardNumel());
      piece.surrender();
    }
    if (!piece.hasMemory()) {
      piece.acquire();
    }
    return piece.owned();
  }

  private boolean reducesIntoShard() {
    return whole == null || (groups.shardCount() > 1 && !summed && isReducedInPlace());
  }

  private ReduceOp op() {
    return factors.before() == 1 && factors.after() == 1 ? ReduceOp.AVG : ReduceOp.SUM;
  }

  /** Whether {@link #startReplicating} or {@link #finish} would not wait. */
  boolean isStepDone() {
    return reduction.isDone();
  }

  /** Waits for the reduce-scatter and starts the all-reduce over the replicas. */
  void startReplicating() {
    requireState(State.SCATTERING);
    reduction.await();
    reduction = NoCollective.INSTANCE;
    Tensor reduced = target();
    if (whole != null && groups.shardCount() > 1) {
      whole.release();
    }
    if (groups.replicaCount() > 1 && reduced.numel() > 0) {
      reduction = groups.replicas().allReduce(reduced, op());
    }
    state = State.REPLICATING;
  }

  /** Waits for the all-reduce; the shard then holds the mean over all ranks. */
  void finish() {
    requireState(State.REPLICATING);
    reduction.await();
    reduction = NoCollective.INSTANCE;
    Tensor gradient = requireShard();
    Tensor reduced = target();
    if (factors.after() != 1) {
      reduced.div_(Tensors.scalar(factors.after()));
    }
    if (!reducesIntoShard()) {
      if (summed) {
        gradient.add_(reduced.to(gradient.device(), gradient.scalar_type()));
      } else {
        gradient.copy_(reduced);
      }
    }
    if (whole != null) {
      whole.release();
    }
    if (piece != null) {
      piece.release();
    }
    summed = true;
    state = State.IDLE;
  }

  /** Whether backward passes since the last {@link #clear} gave parameter {@code index} any. */
  boolean isUsed(int index) {
    return used[index];
  }

  /** Hands the reduced gradient of parameter {@code index} to the optimizer. */
  void publish(int index) {
    Tensors.setGrad(parameter.shardView(index), shardSlots.get(index));
  }

  /** The reduced shard [shardNumel], zeros where nothing was used; null before any reduction. */
  @Nullable Tensor reduced() {
    return summed ? shard : null;
  }

  /** Forgets gradients, reduced and not. */
  void clear() {
    if (state == State.ATTACHED) {
      detach();
      if (whole != null) {
        whole.release();
      }
      state = State.IDLE;
    }
    try (var scope = NativeScope.open()) {
      Tensor none = new Tensor();
      for (int i = 0; i < trainable.length; i++) {
        Tensors.setGrad(parameter.shardView(i), none);
      }
    }
    Arrays.fill(used, false);
    summed = false;
  }

  private Tensor requireShard() {
    if (shard == null) {
      throw new IllegalStateException("Cannot reduce gradients that were never attached.");
    }
    return shard;
  }

  private void requireState(State expected) {
    if (state != expected) {
      throw new IllegalStateException(
          "Cannot reduce the gradients of %s: expected state %s, got %s (rank %d of %d)."
              .formatted(
                  parameter.names(),
                  expected.name().toLowerCase(Locale.ROOT),
                  state.name().toLowerCase(Locale.ROOT),
                  groups.world().rank(),
                  groups.world().worldSize()));
    }
  }

  /** Bytes of the shard. */
  long shardBytes() {
    return shard == null ? 0 : parameter.shardBytes();
  }

  @Override
  public void close() {
    clear();
    slots.forEach(Tensor::close);
    shardSlots.forEach(Tensor::close);
    if (whole != null) {
      whole.close();
    }
    if (piece != null) {
      piece.close();
    }
    if (shard != null) {
      shard.close();
    }
  }
}
