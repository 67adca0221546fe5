package io.sparktrainer.comm;

import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import org.bytedeco.pytorch.Tensor;

/**
 * Element-wise work on contiguous tensors without regard to shape, gradient or version: a
 * collective writes into raw memory, and autograd must see neither more nor less.
 */
final class FlatTensors {
  private FlatTensors() {}

  /** A handle of our own to the same elements: the caller's may close before the work is done. */
  static Tensor keep(Tensor tensor) {
    try (var scope = NativeScope.open()) {
      return NativeScope.keep(new Tensor(tensor));
    }
  }

  /** All elements in one dimension, in the current scope. */
  static Tensor flat(Tensor tensor) {
    return tensor.variable_data().view(-1);
  }

  /** Elements {@code start} to {@code start + length} of {@code tensor}, in the current scope. */
  static Tensor slice(Tensor tensor, long start, long length) {
    return flat(tensor).narrow(0, start, length);
  }

  /** Whether two tensors share memory. */
  static boolean overlap(Tensor one, Tensor other) {
    long start = one.data_ptr().address();
    long otherStart = other.data_ptr().address();
    return start < otherStart + other.nbytes() && otherStart < start + one.nbytes();
  }

  /** Copies all elements; the shapes may differ, the numbers of elements not. */
  static void copy(Tensor target, Tensor source) {
    try (var scope = NativeScope.open()) {
      flat(target).copy_(flat(source));
    }
  }

  static void divide(Tensor tensor, int divisor) {
    try (var scope = NativeScope.open()) {
      tensor.variable_data().div_(Tensors.scalar(divisor));
    }
  }
}
