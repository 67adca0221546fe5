package io.sparktrainer.torch;

import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptions;

/**
 * Where tensors live.
 *
 * @param type processor kind
 * @param index which one of the host's devices, from 0; always 0 on the CPU
 */
public record Device(Type type, int index) {
  public static final Device CPU = new Device(Type.CPU, 0);

  /** Processor kinds. */
  public enum Type {
    CPU,
    CUDA
  }

  public Device {
    if (index < 0 || (type == Type.CPU && index != 0)) {
      throw new IllegalArgumentException(
          "Cannot use device " + type + " " + index + ": expected CPU 0, or CUDA 0 and up.");
    }
  }

  public static Device cuda(int index) {
    return new Device(Type.CUDA, index);
  }

  /** Where {@code tensor} lives. */
  public static Device of(Tensor tensor) {
    return tensor.is_cpu() ? CPU : cuda(tensor.device().index());
  }

  public boolean isCuda() {
    return type == Type.CUDA;
  }

  /** libtorch's handle; created in the current scope. */
  public org.bytedeco.pytorch.Device toNative() {
    return new org.bytedeco.pytorch.Device(toString());
  }

  /** Options for a new tensor of {@code dtype} on this device, without gradient. */
  public TensorOptions options(DType dtype) {
    return new TensorOptions(dtype.scalarType())
        .device(new org.bytedeco.pytorch.DeviceOptional(toNative()));
  }

  /** {@code cpu} or {@code cuda:i}, as PyTorch writes it. */
  @Override
  public String toString() {
    return type == Type.CPU ? "cpu" : "cuda:" + index;
  }
}
