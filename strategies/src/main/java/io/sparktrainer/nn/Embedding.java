package io.sparktrainer.nn;

import io.sparktrainer.torch.DType;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * A table of vectors: input [...] of row numbers, of any integer type or float whole numbers;
 * output [..., width], weight [rows, width]. On the CPU a row number out of range is a {@link
 * RuntimeException}.
 */
public final class Embedding extends Block {
  private final Tensor weight;

  /** Normally distributed with standard deviation 1, PyTorch's default. */
  public Embedding(long rows, long width) {
    this(Init.normal(1, rows, width));
  }

  /** With the given first values. */
  Embedding(Tensor weight) {
    this.weight = parameter("weight", weight);
  }

  /** The weight [rows, width], for tying. */
  public Tensor weight() {
    return weight;
  }

  @Override
  protected Tensor forward(Tensor... inputs) {
    return torch.embedding(weight, inputs[0].to(DType.INT64.scalarType()));
  }
}
