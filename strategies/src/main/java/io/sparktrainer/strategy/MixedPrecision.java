package io.sparktrainer.strategy;

import io.sparktrainer.torch.DType;
import org.jspecify.annotations.Nullable;

/**
 * Element types of {@code fsdp} beside that of the shards, which stay in the model's own type and
 * which the optimizer updates. Batch normalisation keeps the model's own types, for parameters and
 * statistics, as in PyTorch.
 *
 * @param paramDtype type that parameters are gathered in, and floating-point inputs of a unit are
 *     cast to; null for the model's own type
 * @param reduceDtype type that gradients are added up and reduced in; null for {@code paramDtype}
 * @param bufferDtype type that floating-point buffers are cast to once; null for their own
 */
public record MixedPrecision(
    @Nullable DType paramDtype, @Nullable DType reduceDtype, @Nullable DType bufferDtype) {
  /** Everything in the model's own types. */
  public static final MixedPrecision NONE = new MixedPrecision(null, null, null);

  public MixedPrecision {
    requireFloatingPoint("param_dtype", paramDtype);
    requireFloatingPoint("reduce_dtype", reduceDtype);
    requireFloatingPoint("buffer_dtype", bufferDtype);
  }

  private static void requireFloatingPoint(String name, @Nullable DType dtype) {
    if (dtype != null && !dtype.isFloatingPoint()) {
      throw new IllegalArgumentException(
          "Cannot use %s %s: expected a floating-point type.".formatted(name, dtype));
    }
  }

  /** Type in which parameters of type {@code own} are gathered. */
  public DType gathered(DType own) {
    return paramDtype == null || !own.isFloatingPoint() ? own : paramDtype;
  }

  /** Type in which gradients of parameters of type {@code own} are reduced. */
  public DType reduced(DType own) {
    return reduceDtype == null || !own.isFloatingPoint() ? gathered(own) : reduceDtype;
  }
}
