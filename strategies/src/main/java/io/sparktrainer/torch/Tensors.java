package io.sparktrainer.torch;

import java.nio.ByteBuffer;
import java.util.Arrays;
import org.bytedeco.javacpp.BytePointer;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.pytorch.LongArrayRef;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptions;
import org.bytedeco.pytorch.global.torch;

/** Making and reading tensors without the overloads of the bindings that end the JVM. */
public final class Tensors {
  private Tensors() {}

  /** Uninitialised tensor of {@code shape} on {@code device}. */
  public static Tensor empty(DType dtype, Device device, long... shape) {
    NativeLibraries.load();
    return torch.empty(shape, options(dtype, device), null);
  }

  /** Zeros of {@code shape} on {@code device}. */
  public static Tensor zeros(DType dtype, Device device, long... shape) {
    NativeLibraries.load();
    return torch.zeros(shape, options(dtype, device));
  }

  private static TensorOptions options(DType dtype, Device device) {
    return ShapesOnly.isOpen() ? ShapesOnly.options(dtype) : device.options(dtype);
  }

  /** Copies {@code values} into a float32 CPU tensor of {@code shape}. */
  public static Tensor of(float[] values, long... shape) {
    requireElements(values.length, shape);
    Tensor tensor = empty(DType.FLOAT32, Device.CPU, shape);
    if (values.length > 0 && !tensor.is_meta()) {
      new org.bytedeco.javacpp.FloatPointer(tensor.data_ptr()).put(values, 0, values.length);
    }
    return tensor;
  }

  /** Copies {@code values} into an int64 CPU tensor of {@code shape}. */
  public static Tensor of(long[] values, long... shape) {
    requireElements(values.length, shape);
    Tensor tensor = empty(DType.INT64, Device.CPU, shape);
    if (values.length > 0 && !tensor.is_meta()) {
      new org.bytedeco.javacpp.LongPointer(tensor.data_ptr()).put(values, 0, values.length);
    }
    return tensor;
  }

  private static void requireElements(long got, long... shape) {
    long expected = elements(shape);
    if (expected != got) {
      throw new IllegalArgumentException(
          "Cannot make a tensor of shape %s: expected %d values, got %d."
              .formatted(Arrays.toString(shape), expected, got));
    }
  }

  /** Number of elements of {@code shape}. */
  public static long elements(long... shape) {
    long product = 1;
    for (long size : shape) {
      product = Math.multiplyExact(product, size);
    }
    return product;
  }

  /**
   * A CPU tensor over the memory of {@code bytes}, from its position on, without a copy. The buffer
   * must stay reachable and unchanged for as long as the tensor is used.
   *
   * @param bytes direct buffer in native byte order
   * @throws IllegalArgumentException if the buffer is not direct or too small for {@code shape}
   */
  public static Tensor wrap(ByteBuffer bytes, DType dtype, long... shape) {
    NativeLibraries.load();
    long needed = elements(shape) * dtype.bytes();
    if (!bytes.isDirect() || bytes.remaining() < needed) {
      throw new IllegalArgumentException(
          "Cannot wrap a buffer as a %s tensor of shape %s: expected %d bytes of direct memory, got %d%s."
              .formatted(
                  dtype,
                  Arrays.toString(shape),
                  needed,
                  bytes.remaining(),
                  bytes.isDirect() ? "" : " on the heap"));
    }
    // BytePointer(ByteBuffer) starts at the buffer's position only through position().
    Pointer start = new BytePointer(bytes).position(bytes.position());
    return torch.from_blob(start, shape, Device.CPU.options(dtype));
  }

  /**
   * A one-dimensional uint8 tensor over the memory of a contiguous CPU tensor's elements, as a
   * buffer for reading or writing them in bulk.
   *
   * @throws IllegalArgumentException if the tensor is not contiguous, not on the CPU, or larger
   *     than a buffer can be (2 GiB)
   */
  public static ByteBuffer bytes(Tensor tensor) {
    long size = tensor.numel() * DType.of(tensor).bytes();
    if (!tensor.is_contiguous() || !tensor.is_cpu() || size > Integer.MAX_VALUE) {
      throw new IllegalArgumentException(
          "Cannot view a tensor as bytes: expected a contiguous CPU tensor of less than 2 GiB, got "
              + describe(tensor)
              + ".");
    }
    if (size == 0) {
      return ByteBuffer.allocateDirect(0).order(java.nio.ByteOrder.nativeOrder());
    }
    return new BytePointer(tensor.data_ptr())
        .capacity(size)
        .asByteBuffer()
        .order(java.nio.ByteOrder.nativeOrder());
  }

  /** Size of each dimension. */
  public static long[] shape(Tensor tensor) {
    return toArray(tensor.sizes());
  }

  /** Elements to skip in memory to get to the next index of each dimension. */
  public static long[] strides(Tensor tensor) {
    return toArray(tensor.strides());
  }

  private static long[] toArray(LongArrayRef values) {
    long[] array = new long[(int) values.size()];
    for (int i = 0; i < array.length; i++) {
      array[i] = values.get(i);
    }
    return array;
  }

  /** Elements of a tensor of any shape, as float32 on the CPU, row-major. */
  public static float[] toFloats(Tensor tensor) {
    try (var scope = NativeScope.open()) {
      Tensor flat =
          tensor.detach().to(org.bytedeco.pytorch.global.torch.ScalarType.Float).cpu().contiguous();
      float[] values = new float[Math.toIntExact(flat.numel())];
      if (values.length > 0) {
        new org.bytedeco.javacpp.FloatPointer(flat.data_ptr()).get(values);
      }
      return values;
    }
  }

  /** Elements of a tensor of any shape, as int64 on the CPU, row-major. */
  public static long[] toLongs(Tensor tensor) {
    try (var scope = NativeScope.open()) {
      Tensor flat =
          tensor.detach().to(org.bytedeco.pytorch.global.torch.ScalarType.Long).cpu().contiguous();
      long[] values = new long[Math.toIntExact(flat.numel())];
      if (values.length > 0) {
        new org.bytedeco.javacpp.LongPointer(flat.data_ptr()).get(values);
      }
      return values;
    }
  }

  /**
   * Overwrites {@code target} without raising its version counter, so that a graph which saved it
   * can still be differentiated, and without a gradient.
   */
  public static void overwrite(Tensor target, Tensor source) {
    try (var scope = NativeScope.open()) {
      target.variable_data().copy_(source.detach());
    }
  }

  /** Sets {@code parameter.grad}; an undefined tensor clears it. */
  public static void setGrad(Tensor parameter, Tensor grad) {
    parameter.mutable_grad().put(grad);
  }

  /** Clears {@code parameter.grad} and frees its memory unless something else holds it. */
  public static void clearGrad(Tensor parameter) {
    try (var scope = NativeScope.open()) {
      setGrad(parameter, new Tensor());
    }
  }

  /** {@code value} as a whole-number scalar, which integer tensors accept in place. */
  public static Scalar scalar(long value) {
    return new Scalar(value);
  }

  /** {@code value} as a libtorch scalar in the current scope. */
  public static Scalar scalar(double value) {
    return new Scalar(value);
  }

  /** {@code float32[64, 1, 28, 28] on cpu}: for messages. */
  public static String describe(Tensor tensor) {
    if (!tensor.defined()) {
      return "undefined";
    }
    return DType.of(tensor)
        + Arrays.toString(shape(tensor))
        + (tensor.is_meta() ? " without values" : tensor.is_cpu() ? " on cpu" : " on cuda")
        + (tensor.is_contiguous() ? "" : " (not contiguous)");
  }
}
