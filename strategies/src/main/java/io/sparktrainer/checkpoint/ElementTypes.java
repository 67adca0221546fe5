package io.sparktrainer.checkpoint;

import io.sparktrainer.torch.DType;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** The names that safetensors gives to element types. */
final class ElementTypes {
  private static final Map<String, DType> BY_NAME =
      Map.of(
          "F64", DType.FLOAT64,
          "F32", DType.FLOAT32,
          "BF16", DType.BFLOAT16,
          "F16", DType.FLOAT16,
          "I64", DType.INT64,
          "I32", DType.INT32,
          "I16", DType.INT16,
          "I8", DType.INT8,
          "U8", DType.UINT8,
          "BOOL", DType.BOOL);

  private ElementTypes() {}

  static @Nullable DType byName(String name) {
    return BY_NAME.get(name);
  }

  static String names() {
    return BY_NAME.keySet().stream().sorted().toList().toString();
  }

  static String nameOf(DType dtype) {
    return BY_NAME.entrySet().stream()
        .filter(entry -> entry.getValue() == dtype)
        .findFirst()
        .orElseThrow()
        .getKey();
  }
}
