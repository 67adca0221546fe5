package io.sparktrainer.strategy.ddp;

import io.sparktrainer.comm.Communicator;
import io.sparktrainer.nn.Block;
import io.sparktrainer.optim.Clipping;
import io.sparktrainer.strategy.CoalescedBroadcast;
import io.sparktrainer.strategy.ComputeOptions;
import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.strategy.GradientSync;
import io.sparktrainer.strategy.ModelFingerprint;
import io.sparktrainer.strategy.ReplicaStrategy;
import java.util.List;
import org.bytedeco.pytorch.Tensor;

/**
 * Distributed data parallel: every rank trains a replica on its own micro-batches, and gradients
 * are averaged over the ranks in buckets while backward still runs. Semantics of PyTorch's {@code
 * DistributedDataParallel}.
 */
public final class DdpStrategy extends ReplicaStrategy {
  private final DdpOptions options;
  private final GradientReducer reducer;

  /**
   * As the constructor with compute options: full precision, no checkpointing.
   *
   * @throws IllegalArgumentException if the model has no trainable parameter
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
    super(model, communicator, compute);
    this.options = options;
    ModelFingerprint.requireEqual(
        model, options + ", precision " + compute.precision(), communicator);
    CoalescedBroadcast.run(communicator, model.state().values(), 0);
    this.reducer = new GradientReducer(trainable(), options, communicator);
  }

  @Override
  public String name() {
    return "ddp";
  }

  @Override
  protected void beforeForward(GradientSync sync) {
    if (sync == GradientSync.ACCUMULATE) {
      return;
    }
    reducer.beforeForward();
    if (options.broadcastBuffers() && model().training()) {
      CoalescedBroadcast.run(communicator(), model().buffers().values(), 0);
    }
  }

  @Override
  protected void backward(Tensor loss, GradientSync sync) {
    if (sync == GradientSync.ACCUMULATE) {
      loss.backward();
      return;
    }
    reducer.beforeBackward();
    try {
      loss.backward();
    } catch (RuntimeException e) {
      throw reducer.causeOf(e);
    }
    reducer.finish();
  }

  @Override
  public double clipGradNorm(double maxNorm) {
    return Clipping.byNorm(trainable(), maxNorm);
  }

  @Override
  public void clipGradValue(double limit) {
    Clipping.byValue(trainable(), limit);
  }

  /** Parameter numbers of each gradient bucket, in the order in which buckets are reduced. */
  List<List<Integer>> bucketIndices() {
    return reducer.bucketIndices();
  }

  @Override
  protected void release() {
    reducer.close();
  }
}
