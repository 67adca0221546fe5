package io.sparktrainer.testing;

import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import org.bytedeco.javacpp.DoublePointer;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch.ScalarType;

/** Exact values of tensors. */
public final class Values {
  private Values() {}

  /** Elements of a tensor of any type, shape and layout, row-major. */
  public static double[] of(Tensor tensor) {
    try (var scope = NativeScope.open()) {
      Tensor flat = tensor.detach().to(ScalarType.Double).cpu().contiguous();
      double[] values = new double[Math.toIntExact(flat.numel())];
      if (values.length > 0) {
        new DoublePointer(flat.data_ptr()).get(values);
      }
      return values;
    }
  }

  /** float64 tensor on the CPU with the given elements, in the current scope. */
  public static Tensor tensor(double[] values, long... shape) {
    Tensor tensor =
        Tensors.empty(io.sparktrainer.torch.DType.FLOAT64, io.sparktrainer.torch.Device.CPU, shape);
    if (values.length > 0) {
      new DoublePointer(tensor.data_ptr()).put(values, 0, values.length);
    }
    return tensor;
  }
}
