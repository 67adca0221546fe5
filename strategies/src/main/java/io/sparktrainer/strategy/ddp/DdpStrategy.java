package io.sparktrainer.strategy.ddp;

import io.sparktrainer.comm.Communicator;
import io.sparktrainer.nn.Block;
import io.sparktrainer.strategy.CoalescedBroadcast;
import io.sparktrainer.strategy.ComputeOptions;
import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.strategy.GradientSync;
import io.sparktrainer.strategy.ModelFingerprint;
import io.sparktrainer.strategy.ReplicaStrategy;
import io.sparktrainer.strategy.UnevenInputs;
import io.sparktrainer.torch.Gradients;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * Distributed data parallel: every rank trains a replica on its own micro-batches, and gradients
 * are averaged over the ranks in buckets while backward still runs. Semantics of PyTorch's {@code
 * DistributedDataParallel}.
 *
 * <p>What is reduced is what {@code grad()} of the parameters holds after the backward pass of
 * {@link #forwardBackward} with {@link GradientSync#REDUCE}, earlier micro-batches included. A
 * backward pass run elsewhere, or {@code autograd.grad} on parameters, stays on this rank; inside a
 * {@link io.sparktrainer.nn.Loss}, gradients with respect to inputs or activations may become part
 * of the loss (gradient penalties), and their contribution to the parameters is reduced with the
 * rest.
 */
public final class DdpStrategy extends ReplicaStrategy {
  private final DdpOptions options;
  private final GradientReducer reducer;
  private final @Nullable SyncBatchNorm syncBatchNorm;
  private @Nullable StepPlan plan;
  private long stepInEpoch;
  private int divisor;
  private boolean buffersDue = true;

  /**
   * As the constructor with compute options: full precision, no checkpointing.
   *
   * @throws IllegalArgumentException if the model has no trainable parameter, or no batch
   *     normalisation although {@code sync_batch_norm} is set
   * @throws IllegalStateException on every rank, if models or options differ between ranks
   */
  public DdpStrategy(Block model, Communicator communicator, DdpOptions options) {
    this(model, communicator, options, ComputeOptions.defaults());
  }

  /**
   * Takes over {@code model} and {@code communicator}; all ranks construct it together. Rank 0's
   * parameters and buffers replace the others'.
   *
   * @throws IllegalArgumentException if the model has no trainable parameter, or the checkpointing
   *     policy chooses no block
   * @throws IllegalStateException on every rank, if models or options differ between ranks
   */
  public DdpStrategy(
      Block model, Communicator communicator, DdpOptions options, ComputeOptions compute) {
    super(moved(model, compute), communicator, compute);
    this.options = options;
    ModelFingerprint.requireEqual(
        model, options + ", precision " + compute.precision(), communicator);
    CoalescedBroadcast.run(communicator, model.state().values(), 0);
    this.syncBatchNorm = options.syncBatchNorm() ? new SyncBatchNorm(model, communicator) : null;
    Map<String, Tensor> frozen = new LinkedHashMap<>(model.parameters());
    frozen.keySet().removeAll(trainable().keySet());
    this.reducer = new GradientReducer(trainable(), frozen, options, communicator);
  }

  @Override
  public String name() {
    return "ddp";
  }

  @Override
  protected void beforeForward(GradientSync sync) {
    StepPlan steps = plan;
    if (steps != null && !steps.isActive(rank(), stepInEpoch)) {
      throw new IllegalStateException(
          "Cannot take a step with data: expected at most the %d steps that beginEpoch was told, got one more (rank %d of %d). Use shadowStep for the other ranks' steps."
              .formatted(steps.steps(rank()), rank(), worldSize()));
    }
    if (syncBatchNorm != null) {
      syncBatchNorm.startPass();
    }
    prepare(sync);
  }

  private void prepare(GradientSync sync) {
    if (buffersDue && options.broadcastBuffers()) {
      int root = plan == null ? 0 : plan.highestActive(stepInEpoch);
      CoalescedBroadcast.run(communicator(), model().buffers().values(), root);
    }
    buffersDue = sync == GradientSync.REDUCE;
    if (sync == GradientSync.REDUCE) {
      reducer.beforeForward();
    }
  }

  @Override
  protected void backward(Tensor loss, GradientSync sync) {
    if (sync == GradientSync.ACCUMULATE) {
      loss.backward();
      return;
    }
    reducer.beforeBackward(participants());
    try {
      loss.backward();
    } catch (RuntimeException e) {
      throw reducer.causeOf(e);
    }
    reducer.finish();
    stepInEpoch++;
  }

  private Participants participants() {
    divisor = worldSize();
    if (plan == null) {
      return new Participants(divisor, 0);
    }
    if (options.unevenInputs() == UnevenInputs.DIVIDE_BY_ACTIVE) {
      divisor = plan.active(stepInEpoch);
    }
    return new Participants(divisor, plan.lowestActive(stepInEpoch));
  }

  @Override
  public int gradientDivisor() {
    return divisor;
  }

  @Override
  public boolean allowsUnevenSteps() {
    return options.unevenInputs() != UnevenInputs.REFUSE;
  }

  @Override
  public long beginEpoch(long steps) {
    requireReady();
    if (!allowsUnevenSteps()) {
      return steps;
    }
    try (var scope = NativeScope.open()) {
      Tensor all = Tensors.of(new long[worldSize()], worldSize());
      communicator().allGather(all, Tensors.of(new long[] {steps}, 1)).await();
      plan = new StepPlan(Arrays.stream(Tensors.toLongs(all)).boxed().toList());
      stepInEpoch = 0;
      return plan.total();
    }
  }

  @Override
  public void shadowStep() {
    requireReady();
    if (plan == null || plan.isActive(rank(), stepInEpoch) || stepInEpoch >= plan.total()) {
      throw new IllegalStateException(
          "Cannot shadow a step: expected this rank's %s steps of %s to be done and others' not, got %d done (rank %d of %d). Call beginEpoch first, and shadowStep for the steps past this rank's own."
              .formatted(
                  plan == null ? "0" : String.valueOf(plan.steps(rank())),
                  plan == null ? "0" : String.valueOf(plan.total()),
                  stepInEpoch,
                  rank(),
                  worldSize()));
    }
    guarded(
        () -> {
          prepare(GradientSync.REDUCE);
          reducer.reduceNothing(participants());
          stepInEpoch++;
        });
  }

  @Override
  public void endEpoch() {
    requireReady();
    StepPlan steps = plan;
    if (steps == null) {
      if (options.broadcastBuffers()) {
        guarded(() -> CoalescedBroadcast.run(communicator(), model().buffers().values(), 0));
      }
      return;
    }
    if (stepInEpoch != steps.total()) {
      throw new IllegalStateException(
          "Cannot end the epoch: expected %d steps, got %d (rank %d of %d)."
              .formatted(steps.total(), stepInEpoch, rank(), worldSize()));
    }
    plan = null;
    guarded(
        () -> CoalescedBroadcast.run(communicator(), model().state().values(), steps.lastJoiner()));
  }

  @Override
  public Map<String, Tensor> rankState() {
    requireReady();
    return reducer.exchange().state();
  }

  @Override
  public void loadRankState(Map<String, Tensor> state) {
    requireReady();
    try (var scope = NativeScope.open();
        var off = Gradients.off()) {
      reducer.exchange().loadState(state);
    }
  }

  /** Parameter numbers of each gradient bucket, in the order in which buckets are reduced. */
  List<List<Integer>> bucketIndices() {
    return reducer.bucketIndices();
  }

  @Override
  protected void release() {
    reducer.close();
    if (syncBatchNorm != null) {
      syncBatchNorm.close();
    }
  }
}
