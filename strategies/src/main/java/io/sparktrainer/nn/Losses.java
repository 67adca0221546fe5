package io.sparktrainer.nn;

import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Tensors;
import java.util.Arrays;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/** The ready losses. Each checks shapes in Java first and says what does not fit. */
public enum Losses implements Loss {
  /**
   * Cross-entropy of class scores: output [n, classes] (or [n, tokens, classes]) float, target [n]
   * (or [n, tokens]) of any integer type, or float whole numbers.
   */
  CROSS_ENTROPY {
    @Override
    public Tensor of(Tensor output, Tensor target) {
      long[] shape = Tensors.shape(output);
      if (shape.length < 2
          || !Arrays.equals(Arrays.copyOf(shape, shape.length - 1), Tensors.shape(target))) {
        throw mismatch(
            this, "output [..., classes] with a target of the same leading sizes", output, target);
      }
      return torch.cross_entropy_loss(
          output.flatten(0, -2), target.flatten().to(DType.INT64.scalarType()));
    }
  },

  /** Binary cross-entropy of logits: output and target of the same number of elements. */
  BINARY_CROSS_ENTROPY {
    @Override
    public Tensor of(Tensor output, Tensor target) {
      return torch.binary_cross_entropy_with_logits(output, like(this, output, target));
    }
  },

  /** Mean squared error. */
  MSE {
    @Override
    public Tensor of(Tensor output, Tensor target) {
      return torch.mse_loss(output, like(this, output, target));
    }
  },

  /** Mean absolute error. */
  L1 {
    @Override
    public Tensor of(Tensor output, Tensor target) {
      return torch.l1_loss(output, like(this, output, target));
    }
  },

  /** Huber's loss with delta 1: quadratic within 1 of the target, linear beyond. */
  HUBER {
    @Override
    public Tensor of(Tensor output, Tensor target) {
      return torch.huber_loss(output, like(this, output, target));
    }
  };

  /** {@code target} with the output's shape and type. Shapes may differ by sizes of 1 only. */
  private static Tensor like(Losses loss, Tensor output, Tensor target) {
    if (!Arrays.equals(withoutOnes(output), withoutOnes(target))) {
      throw mismatch(loss, "output and target of the same shape", output, target);
    }
    return target.to(output.scalar_type()).view_as(output);
  }

  private static long[] withoutOnes(Tensor tensor) {
    return Arrays.stream(Tensors.shape(tensor)).filter(size -> size != 1).toArray();
  }

  private static IllegalArgumentException mismatch(
      Losses loss, String expected, Tensor output, Tensor target) {
    return new IllegalArgumentException(
        "Cannot compute %s: expected %s, got output %s and target %s. Check the model's number of outputs and the label column."
            .formatted(
                loss.name().toLowerCase(java.util.Locale.ROOT),
                expected,
                Tensors.describe(output),
                Tensors.describe(target)));
  }
}
