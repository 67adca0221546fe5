package io.sparktrainer.nn;

import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Tensors;
import java.util.Arrays;
import java.util.Locale;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptional;
import org.bytedeco.pytorch.global.torch;

/**
 * The ready losses. Each checks shapes in Java first and names both where they do not fit: nothing
 * is broadcast. Sizes of 1 do not count, so a label column [n] goes with an output [n, 1], element
 * by element.
 */
public enum Losses implements Loss {
  /**
   * Cross-entropy of class scores: output [n, classes] (or [n, tokens, classes]) float, target [n]
   * (or [n, tokens]) of any integer type, or float whole numbers.
   */
  CROSS_ENTROPY {
    @Override
    Tensor reduced(Tensor output, Tensor target, Reduction reduction) {
      long[] shape = Tensors.shape(output);
      if (shape.length < 2
          || !Arrays.equals(Arrays.copyOf(shape, shape.length - 1), Tensors.shape(target))) {
        throw mismatch(
            "output [..., classes] with a target of the same leading sizes", output, target);
      }
      return torch.cross_entropy_loss(
          output.flatten(0, -2),
          target.flatten().to(DType.INT64.scalarType()),
          new TensorOptional(),
          reduction.number,
          IGNORED_CLASS,
          0);
    }
  },

  /** Binary cross-entropy of logits: output and target of the same number of elements. */
  BINARY_CROSS_ENTROPY {
    @Override
    Tensor reduced(Tensor output, Tensor target, Reduction reduction) {
      return torch.binary_cross_entropy_with_logits(
          output,
          like(output, target),
          new TensorOptional(),
          new TensorOptional(),
          reduction.number);
    }
  },

  /** Mean squared error. */
  MSE {
    @Override
    Tensor reduced(Tensor output, Tensor target, Reduction reduction) {
      return torch.mse_loss(output, like(output, target), reduction.number);
    }
  },

  /** Mean absolute error. */
  L1 {
    @Override
    Tensor reduced(Tensor output, Tensor target, Reduction reduction) {
      return torch.l1_loss(output, like(output, target), reduction.number);
    }
  },

  /** Huber's loss with delta 1: quadratic within 1 of the target, linear beyond. */
  HUBER {
    @Override
    Tensor reduced(Tensor output, Tensor target, Reduction reduction) {
      return torch.huber_loss(output, like(output, target), reduction.number, 1);
    }
  },

  /**
   * The mean of the model's output, which is the loss itself: for models that need no label, such
   * as one that rebuilds its input. The target is not looked at.
   */
  OUTPUT {
    @Override
    Tensor reduced(Tensor output, Tensor target, Reduction reduction) {
      return reduction == Reduction.MEAN ? output.mean() : output;
    }
  };

  /** What becomes of the losses of single targets. */
  enum Reduction {
    NONE(0),
    MEAN(1);

    /** PyTorch's number of it. */
    private final long number;

    Reduction(long number) {
      this.number = number;
    }
  }

  /** PyTorch's class that counts for nothing. */
  private static final long IGNORED_CLASS = -100;

  /** The loss of each target, or their mean. */
  abstract Tensor reduced(Tensor output, Tensor target, Reduction reduction);

  @Override
  public Tensor of(Tensor output, Tensor target) {
    return reduced(output, target, Reduction.MEAN);
  }

  @Override
  public Tensor weighted(Tensor output, Tensor target, Tensor weight) {
    Tensor each = reduced(output, target, Reduction.NONE);
    long rows = weight.numel();
    if (weight.dim() != 1 || output.dim() < 1 || output.size(0) != rows) {
      throw new IllegalArgumentException(
          "Cannot weight %s: expected output [rows, ...] and weights [rows], got output %s and weights %s. Check the model's output and the weight column."
              .formatted(lowerCaseName(), Tensors.describe(output), Tensors.describe(weight)));
    }
    return each.reshape(rows, -1).mean(1).mul(weight.to(each.scalar_type())).mean();
  }

  /** {@code target} with the output's shape and type. Shapes may differ by sizes of 1 only. */
  Tensor like(Tensor output, Tensor target) {
    if (!Arrays.equals(withoutOnes(output), withoutOnes(target))) {
      throw mismatch("output and target of the same shape", output, target);
    }
    return target.to(output.scalar_type()).view_as(output);
  }

  private static long[] withoutOnes(Tensor tensor) {
    return Arrays.stream(Tensors.shape(tensor)).filter(size -> size != 1).toArray();
  }

  IllegalArgumentException mismatch(String expected, Tensor output, Tensor target) {
    return new IllegalArgumentException(
        "Cannot compute %s: expected %s, got output %s and target %s. Check the model's number of outputs and the label column."
            .formatted(
                lowerCaseName(), expected, Tensors.describe(output), Tensors.describe(target)));
  }

  private String lowerCaseName() {
    return name().toLowerCase(Locale.ROOT);
  }
}
