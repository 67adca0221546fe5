package io.sparktrainer.nn;

import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.Gradients;
import io.sparktrainer.torch.Rng;
import io.sparktrainer.torch.Tensors;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * Dropout (Srivastava et al., 2014): in training, zeroes each element with probability {@code p}
 * and scales the rest by 1/(1-p). Draws from the thread's {@link Rng}, so a run is repeatable.
 */
public final class Dropout extends Block {
  private final double probability;

  /**
   * @throws IllegalArgumentException if {@code probability} is not in [0, 1)
   */
  public Dropout(double probability) {
    if (!(probability >= 0 && probability < 1)) {
      throw new IllegalArgumentException(
          "Cannot make dropout: expected a probability in [0, 1), got " + probability + ".");
    }
    this.probability = probability;
  }

  @Override
  protected Tensor forward(Tensor... inputs) {
    if (!training() || probability == 0) {
      return inputs[0];
    }
    Tensor mask;
    try (var off = Gradients.off()) {
      mask =
          torch
              .empty_like(inputs[0])
              .bernoulli_(1 - probability, Rng.generator(Device.of(inputs[0])));
      mask.mul_(Tensors.scalar(1 / (1 - probability)));
    }
    return inputs[0].mul(mask);
  }
}
