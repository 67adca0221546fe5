package io.sparktrainer.strategy.single;

import io.sparktrainer.comm.Communicator;
import io.sparktrainer.nn.Block;
import io.sparktrainer.strategy.ComputeOptions;
import io.sparktrainer.strategy.GradientSync;
import io.sparktrainer.strategy.ReplicaStrategy;
import org.bytedeco.pytorch.Tensor;

/**
 * The strategy {@code none}: one rank trains the whole model; the reference for all others.
 *
 * <p>Everything happens on the calling thread and in the order of the calls, so each part of a step
 * can be observed and controlled: after {@code forwardBackward} the gradients are in {@code
 * model().parameters()} and may be read or changed, {@code unscaleGradients} and clipping act on
 * them, and nothing changes a parameter but the caller's optimizer. {@code predict} runs the model
 * without gradients, in the mode (training or evaluation) that the model is in.
 */
public final class SingleStrategy extends ReplicaStrategy {
  /**
   * Takes over {@code model} and {@code communicator}; full precision, no checkpointing.
   *
   * @throws IllegalArgumentException if the group has more than one rank, or the model no trainable
   *     parameter
   */
  public SingleStrategy(Block model, Communicator communicator) {
    this(model, communicator, ComputeOptions.defaults());
  }

  /**
   * Takes over {@code model} and {@code communicator}.
   *
   * @throws IllegalArgumentException if the group has more than one rank, the model no trainable
   *     parameter, or the checkpointing policy chooses no block
   */
  public SingleStrategy(Block model, Communicator communicator, ComputeOptions options) {
    super(moved(model, options), communicator, options);
    if (communicator.worldSize() != 1) {
      throw new IllegalArgumentException(
          "Cannot use strategy none: expected one rank, got %d. Use ddp or fsdp for several."
              .formatted(communicator.worldSize()));
    }
  }

  @Override
  public String name() {
    return "none";
  }

  @Override
  protected void backward(Tensor loss, GradientSync sync) {
    loss.backward();
  }
}
