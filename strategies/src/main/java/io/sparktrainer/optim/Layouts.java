package io.sparktrainer.optim;

import io.sparktrainer.torch.DType;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * Memory layouts. The fused kernels walk all tensors of a parameter in memory order and look at
 * neither shape nor strides nor type, so that what they get must agree in all of these.
 */
final class Layouts {
  private Layouts() {}

  /** Whether both have the same shape and lie in memory in the same order, without gaps. */
  static boolean match(Tensor a, Tensor b) {
    if (!a.is_same_size(b)) {
      return false;
    }
    return (a.is_contiguous() && b.is_contiguous())
        || (a.is_non_overlapping_and_dense()
            && b.is_non_overlapping_and_dense()
            && sameStrides(a, b));
  }

  private static boolean sameStrides(Tensor a, Tensor b) {
    for (long axis = 0; axis < a.dim(); axis++) {
      if (a.stride(axis) != b.stride(axis)) {
        return false;
      }
    }
    return true;
  }

  /** {@code tensor} itself, or a copy with the type and layout of {@code model}. */
  static Tensor like(Tensor model, Tensor tensor) {
    return DType.of(tensor) == DType.of(model) && match(model, tensor)
        ? tensor
        : new Tensor(torch.empty_like(model).copy_(tensor));
  }

  /** {@code tensor} itself, or a copy of type {@code dtype} without gaps. */
  static Tensor dense(Tensor tensor, DType dtype) {
    Tensor typed = DType.of(tensor) == dtype ? tensor : tensor.to(dtype.scalarType());
    return typed.is_non_overlapping_and_dense() ? typed : typed.contiguous();
  }
}
