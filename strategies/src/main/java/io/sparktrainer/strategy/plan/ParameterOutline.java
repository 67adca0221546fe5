package io.sparktrainer.strategy.plan;

import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Tensors;
import java.util.List;
import org.bytedeco.pytorch.Tensor;

/**
 * A parameter without its values.
 *
 * @param name dotted name in the model
 * @param dtype element type
 * @param shape size of each dimension; empty for a scalar
 * @param trainable whether it gets a gradient
 */
public record ParameterOutline(String name, DType dtype, List<Long> shape, boolean trainable) {
  public ParameterOutline {
    shape = List.copyOf(shape);
  }

  static ParameterOutline of(String name, Tensor tensor) {
    return new ParameterOutline(
        name,
        DType.of(tensor),
        java.util.Arrays.stream(Tensors.shape(tensor)).boxed().toList(),
        tensor.requires_grad());
  }

  /** Number of elements. */
  public long numel() {
    return Tensors.elements(shape.stream().mapToLong(Long::longValue).toArray());
  }

  /** Size in its own type. */
  public long bytes() {
    return Math.multiplyExact(numel(), dtype.bytes());
  }
}
