package io.sparktrainer.torch;

import java.util.Locale;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch.ScalarType;

/** Element type of a tensor. */
public enum DType {
  FLOAT64(ScalarType.Double, 8),
  FLOAT32(ScalarType.Float, 4),
  BFLOAT16(ScalarType.BFloat16, 2),
  FLOAT16(ScalarType.Half, 2),
  INT64(ScalarType.Long, 8),
  INT32(ScalarType.Int, 4),
  INT16(ScalarType.Short, 2),
  INT8(ScalarType.Char, 1),
  UINT8(ScalarType.Byte, 1),
  BOOL(ScalarType.Bool, 1);

  private final ScalarType scalarType;
  private final int bytes;

  DType(ScalarType scalarType, int bytes) {
    this.scalarType = scalarType;
    this.bytes = bytes;
  }

  /** libtorch's name of this type. */
  public ScalarType scalarType() {
    return scalarType;
  }

  /** Bytes per element. */
  public int bytes() {
    return bytes;
  }

  /** Whether gradients can have this type. */
  public boolean isFloatingPoint() {
    return this == FLOAT64 || this == FLOAT32 || this == BFLOAT16 || this == FLOAT16;
  }

  /**
   * The element type of {@code tensor}.
   *
   * @throws IllegalArgumentException if it is one that no strategy handles, such as complex
   */
  public static DType of(Tensor tensor) {
    return of(tensor.scalar_type());
  }

  /**
   * The element type that libtorch calls {@code type}.
   *
   * @throws IllegalArgumentException if {@code type} is one that no strategy handles
   */
  public static DType of(ScalarType type) {
    int value = type.intern().value;
    for (DType dtype : values()) {
      if (dtype.scalarType.value == value) {
        return dtype;
      }
    }
    throw new IllegalArgumentException(
        "Cannot use element type " + type.intern() + ": expected one of float, integer and bool.");
  }

  @Override
  public String toString() {
    return name().toLowerCase(Locale.ROOT);
  }
}
