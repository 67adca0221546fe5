package io.sparktrainer.strategy.fsdp;

import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.BlockInterceptor;
import io.sparktrainer.nn.BlockInterceptor.Forward;
import io.sparktrainer.strategy.BackwardPrefetch;
import io.sparktrainer.strategy.FsdpOptions;
import io.sparktrainer.strategy.GradientSync;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Gradients;
import io.sparktrainer.torch.NativeScope;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.bytedeco.pytorch.GradMode;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorBase;
import org.bytedeco.pytorch.VoidTensorHook;
import org.jspecify.annotations.Nullable;

/**
 * Gathers, frees and reduces the units while the model runs: before and after each unit's forward,
 * and before each unit's backward, which a hook on the unit's output announces.
 */
final class PassDriver implements AutoCloseable {
  // As in PyTorch.
  private static final int GATHERS_AT_A_TIME = 2;

  private enum Phase {
    IDLE,
    FORWARD,
    BACKWARD,
    INFERENCE
  }

  private final List<ShardedUnit> units;
  private final FsdpOptions options;
  private final UnitOrder order;
  private final GatherStream stream;
  private final GatherQueue gathers;
  private final ReduceQueue reductions = new ReduceQueue();
  private final CallLog log = new CallLog();
  private final Map<ShardedUnit, BlockInterceptor> interceptors = new LinkedHashMap<>();
  // libtorch calls these while backward runs; one per entry, used again in every pass.
  private final List<EntryHook> hooks = new ArrayList<>();
  private List<ShardedUnit> lastForward = List.of();
  private Phase phase = Phase.IDLE;
  private boolean staysUnsharded;
  private @Nullable RuntimeException failure;
  private @Nullable MisplacedUse search;

  /** Puts itself around the blocks of {@code units}, the model first. */
  PassDriver(List<ShardedUnit> units, FsdpOptions options, GatherStream stream) {
    this.units = List.copyOf(units);
    this.options = options;
    this.stream = stream;
    this.gathers = new GatherQueue(mostGathers(options, stream));
    this.order = new UnitOrder(units);
    for (ShardedUnit unit : units) {
      BlockInterceptor interceptor = (block, inputs, next) -> call(unit, block, inputs, next);
      unit.plan().block().intercept(interceptor);
      interceptors.put(unit, interceptor);
    }
  }

  /** The host is not held up by gathers that run beside what is computed, unless here. */
  private static int mostGathers(FsdpOptions options, GatherStream stream) {
    return stream.isBeside() && options.limitAllGathers() ? GATHERS_AT_A_TIME : Integer.MAX_VALUE;
  }

  UnitOrder order() {
    return order;
  }

  CallLog log() {
    return log;
  }

  void beginForward() {
    begin(Phase.FORWARD);
  }

  /** Starts a pass without gradients. */
  void beginInference() {
    begin(Phase.INFERENCE);
  }

  private void begin(Phase next) {
    phase = next;
    log.clear();
    stream.followComputing(); // which has updated the shards
    gathers.begin(order.forward());
  }

  private Tensor call(ShardedUnit unit, Block block, Tensor[] inputs, Forward next) {
    if (search != null) {
      return search.call(unit, cast(inputs), next);
    }
    beforeForward(unit, block);
    try {
      return afterForward(unit, next.apply(cast(inputs)));
    } catch (RuntimeException e) {
      throw unit.isRoot() ? explained(e, unit, inputs, next) : e;
    }
  }

  /** Errors of libtorch say nothing of units; a wrong shape may come from one that was freed. */
  private RuntimeException explained(
      RuntimeException failure, ShardedUnit root, Tensor[] inputs, Forward next) {
    boolean isOfLibtorch = failure.getClass() == RuntimeException.class;
    if (!isOfLibtorch || phase == Phase.BACKWARD) {
      return failure;
    }
    MisplacedUse misplaced = new MisplacedUse(units);
    search = misplaced;
    String mistake = misplaced.explain(() -> misplaced.call(root, cast(inputs), next));
    return mistake == null ? failure : new IllegalStateException(mistake, failure);
  }

  private void beforeForward(ShardedUnit unit, Block block) {
    if (phase == Phase.IDLE) {
      throw new IllegalStateException(
          "Cannot call %s (%s): expected to be in forwardBackward() or predict() of fsdp, where its parameters are gathered. Call those instead of the block."
              .formatted(block, unit));
    }
    if (phase == Phase.BACKWARD) {
      throw new IllegalStateException(
          "%s of fsdp is inside a checkpointed block and not checkpointed itself. Checkpoint units or parts of them, or let the outer block be the unit"
              .formatted(unit));
    }
    try (var scope = NativeScope.open();
        var off = Gradients.off()) {
      gathers.require(unit);
      log.begin(unit);
      if (options.forwardPrefetch()) {
        gathers.startAfter(unit, reach());
      }
    }
  }

  private int reach() {
    return options.limitAllGathers() ? 1 : units.size();
  }

  /** Floating-point inputs in the type that the parameters are gathered in. */
  private Tensor[] cast(Tensor[] inputs) {
    DType dtype = options.mixedPrecision().paramDtype();
    if (dtype == null) {
      return inputs;
    }
    Tensor[] converted = inputs.clone();
    for (int i = 0; i < inputs.length; i++) {
      if (DType.of(inputs[i]).isFloatingPoint()) {
        converted[i] = inputs[i].to(dtype.scalarType());
      }
    }
    return converted;
  }

  private Tensor afterForward(ShardedUnit unit, Tensor computed) {
    // What shares memory with gathered parameters would change when they are freed.
    Tensor output = unit.owns(computed) ? computed.clone() : computed;
    if (unit.isRoot() && options.mixedPrecision().paramDtype() != null) {
      output = isLowPrecision(output) ? output.to(DType.FLOAT32.scalarType()) : output;
    }
    if (phase == Phase.FORWARD && GradMode.is_enabled() && output.requires_grad()) {
      // A node of its own: its hook comes before any other that waits for this output's gradient.
      output = output.view_as(output);
      output.register_hook(hook(log.end(unit)));
    }
    if (!unit.isRoot() && options.shardingStrategy().freesAfterForward()) {
      unit.reshard();
    }
    return output;
  }

  private static boolean isLowPrecision(Tensor tensor) {
    DType dtype = DType.of(tensor);
    return dtype == DType.BFLOAT16 || dtype == DType.FLOAT16;
  }

  private EntryHook hook(int entry) {
    while (hooks.size() <= entry) {
      hooks.add(new EntryHook(hooks.size()));
    }
    return hooks.get(entry);
  }

  /** Goes over from forward to backward. */
  void beginBackward(GradientSync sync) {
    endForward();
    phase = Phase.BACKWARD;
    failure = null;
    staysUnsharded =
        sync == GradientSync.ACCUMULATE && !options.shardingStrategy().freesAfterForward();
    boolean reduces = sync == GradientSync.REDUCE || options.accumulateSharded();
    gathers.begin(order.backward());
    reductions.begin(reduces ? order.reduction() : List.of());
  }

  /** Takes part in the gathers of units that only other ranks use. */
  private void endForward() {
    for (ShardedUnit unit : order.forward()) {
      if (gathers.isOutstanding(unit)) {
        gathers.require(unit);
      }
      boolean frees =
          phase == Phase.INFERENCE
              || (!unit.isRoot() && options.shardingStrategy().freesAfterForward());
      if (frees) {
        unit.reshard();
      }
    }
    List<ShardedUnit> issued = gathers.issued();
    lastForward = issued.size() >= lastForward.size() ? issued : lastForward;
  }

  private void beforeBackward(int entry) {
    ShardedUnit unit = log.unit(entry);
    if (options.backwardPrefetch() == BackwardPrefetch.BACKWARD_POST) {
      gathers.start(unit);
    }
    for (ShardedUnit other : order.reduction()) {
      if (log.beganAfter(other, entry)) {
        complete(other);
      }
    }
    if (options.backwardPrefetch() == BackwardPrefetch.NONE) {
      reductions.throttle(0);
    }
    gathers.require(unit);
    passOverUncalled(unit);
    if (options.backwardPrefetch() == BackwardPrefetch.BACKWARD_PRE) {
      gathers.startAfter(unit, reach());
    }
    reductions.throttle(1);
    unit.gradients().forEach(FlatGradient::attach);
  }

  /**
   * Completes units that this rank left out, as if their backward had been now. Not earlier: a rank
   * that waits for their reduction must have taken part in their gather.
   */
  private void passOverUncalled(ShardedUnit reached) {
    for (ShardedUnit unit : order.reduction()) {
      if (!log.wasCalled(unit) && !gathers.comesAfter(unit, reached)) {
        complete(unit);
      }
    }
  }

  private void complete(ShardedUnit unit) {
    if (reductions.isComplete(unit)) {
      return;
    }
    for (FlatGradient gradient : unit.gradients()) {
      if (gradient.hasStray()) {
        throw new IllegalStateException(
            "Cannot reduce the gradients of %s: its parameters were differentiated outside the unit's own backward, when they were not gathered. Let everything that is computed from them reach the loss through the unit's output."
                .formatted(unit));
      }
    }
    if (!staysUnsharded) {
      unit.reshard();
    }
    reductions.complete(unit);
  }

  /** Takes part in what is left of the backward pass, and waits for all reductions. */
  void endBackward() {
    for (ShardedUnit unit : order.backward()) {
      if (gathers.isOutstanding(unit)) {
        gathers.require(unit);
      }
      if (!unit.isRoot()) {
        complete(unit);
      }
    }
    order.reduction().forEach(this::complete);
    if (!staysUnsharded) {
      units.forEach(ShardedUnit::reshard);
    }
    phase = Phase.IDLE;
  }

  /** Waits for the reductions of the pass, if it reduces. */
  void awaitReductions() {
    reductions.finish();
  }

  /** Ends a pass without gradients. */
  void endInference() {
    endForward();
    phase = Phase.IDLE;
  }

  /** Gathers what other ranks gather in a pass without gradients that this rank has no rows for. */
  void shadowInference() {
    stream.followComputing();
    for (ShardedUnit unit : lastForward.isEmpty() ? order.forward() : lastForward) {
      unit.startGather();
      unit.reshard();
    }
  }

  /** What a hook threw during a backward pass that failed; it is the cause of that failure. */
  RuntimeException causeOf(RuntimeException backwardFailure) {
    return failure == null ? backwardFailure : failure;
  }

  @Override
  public String toString() {
    return phase.name().toLowerCase(Locale.ROOT);
  }

  @Override
  public void close() {
    interceptors.forEach((unit, interceptor) -> unit.plan().block().removeInterceptor(interceptor));
    hooks.forEach(EntryHook::close);
    hooks.clear();
  }

  /** Called by libtorch just before the backward of one call of a unit. */
  private final class EntryHook extends VoidTensorHook {
    private final int entry;

    private EntryHook(int entry) {
      this.entry = entry;
      NativeScope.keep(this);
    }

    @Override
    public void call(TensorBase gradient) {
      // The argument belongs to the scope around backward, which would keep it until the step ends.
      try (gradient;
          var scope = NativeScope.open();
          var off = Gradients.off()) {
        beforeBackward(entry);
      } catch (RuntimeException e) {
        // Crossing libtorch, an exception keeps only its text.
        failure = failure == null ? e : failure;
        throw e;
      }
    }
  }
}
