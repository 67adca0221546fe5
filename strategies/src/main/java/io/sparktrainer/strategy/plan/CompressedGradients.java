package io.sparktrainer.strategy.plan;

import io.sparktrainer.strategy.GradientCompression;
import io.sparktrainer.torch.DType;

/**
 * A model's gradients as {@code ddp} sends them.
 *
 * @param sentBytes what a reduction is made of, once powersgd has started
 * @param heldBytes what compression holds at the most, beside gradients and buckets
 */
record CompressedGradients(long sentBytes, long heldBytes) {
  static CompressedGradients of(ModelOutline model, GradientCompression compression) {
    long sent = 0;
    long held = 0;
    for (ParameterOutline parameter : model.parameters()) {
      if (parameter.trainable()) {
        CompressedGradients one = of(parameter, compression);
        sent += one.sentBytes;
        held += one.heldBytes;
      }
    }
    return new CompressedGradients(sent, held);
  }

  private static CompressedGradients of(
      ParameterOutline parameter, GradientCompression compression) {
    boolean precise = parameter.dtype().bytes() >= DType.FLOAT32.bytes();
    if (!precise || compression instanceof GradientCompression.None) {
      return new CompressedGradients(parameter.bytes(), 0);
    }
    if (compression instanceof GradientCompression.PowerSgd powerSgd) {
      return factored(parameter, powerSgd);
    }
    // All buckets may be on their way at once.
    long half = parameter.numel() * DType.BFLOAT16.bytes();
    return new CompressedGradients(half, half);
  }

  private static CompressedGradients factored(
      ParameterOutline parameter, GradientCompression.PowerSgd options) {
    boolean isMatrix = parameter.shape().size() > 1 && parameter.numel() > 0;
    long rows = isMatrix ? parameter.shape().get(0) : 0;
    long columns = isMatrix ? parameter.numel() / rows : 0;
    int rank = options.factorRank(rows, columns);
    if (rank == 0) {
      return new CompressedGradients(parameter.bytes(), 0);
    }
    long bytes = parameter.dtype().bytes();
    long factors = (rows + columns) * rank * bytes;
    long errors = options.errorFeedback() ? parameter.bytes() : 0;
    return new CompressedGradients(factors, factors + errors);
  }
}
