package io.sparktrainer.torch;

import org.bytedeco.pytorch.DeviceOptional;
import org.bytedeco.pytorch.TensorOptions;

/**
 * While open, tensors that the calling thread makes through {@link Tensors} have a shape and a type
 * but no memory (libtorch's meta device). A model of any size can be built to be looked at: names,
 * shapes and types are there, values are not, and it cannot compute.
 */
public final class ShapesOnly implements AutoCloseable {
  private static final ThreadLocal<Boolean> OPEN = ThreadLocal.withInitial(() -> false);

  private final boolean before;

  private ShapesOnly() {
    this.before = OPEN.get();
    OPEN.set(true);
  }

  /** Begins on the calling thread; the result must be closed on the same thread. */
  public static ShapesOnly open() {
    return new ShapesOnly();
  }

  static boolean isOpen() {
    return OPEN.get();
  }

  static TensorOptions options(DType dtype) {
    return new TensorOptions(dtype.scalarType())
        .device(new DeviceOptional(new org.bytedeco.pytorch.Device("meta")));
  }

  @Override
  public void close() {
    if (before) {
      return;
    }
    OPEN.remove();
  }
}
