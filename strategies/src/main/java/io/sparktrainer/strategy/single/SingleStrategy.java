package io.sparktrainer.strategy.single;

import io.sparktrainer.comm.Communicator;
import io.sparktrainer.nn.Block;
import io.sparktrainer.optim.Clipping;
import io.sparktrainer.strategy.GradientSync;
import io.sparktrainer.strategy.ReplicaStrategy;
import org.bytedeco.pytorch.Tensor;

/** The strategy {@code none}: one rank trains the whole model; the reference for all others. */
public final class SingleStrategy extends ReplicaStrategy {
  /**
   * Takes over {@code model} and {@code communicator}.
   *
   * @throws IllegalArgumentException if the group has more than one rank, or the model no trainable
   *     parameter
   */
  public SingleStrategy(Block model, Communicator communicator) {
    super(model, communicator);
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

  @Override
  public double clipGradNorm(double maxNorm) {
    return Clipping.byNorm(trainable(), maxNorm);
  }

  @Override
  public void clipGradValue(double limit) {
    Clipping.byValue(trainable(), limit);
  }
}
