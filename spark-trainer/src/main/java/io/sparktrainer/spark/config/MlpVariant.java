package io.sparktrainer.spark.config;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** {@code model: {type: mlp}}. */
final class MlpVariant implements Variant<ModelSpec> {
  @Override
  public String name() {
    return "mlp";
  }

  @Override
  public @Nullable ModelSpec read(Section section) {
    List<Integer> hidden = section.integers("hidden", 1);
    Integer outputs = ModelSection.outputs(section);
    return section.build(() -> new ModelSpec.Mlp(hidden, outputs));
  }

  @Override
  public @Nullable Map<String, @Nullable Object> write(ModelSpec value) {
    if (!(value instanceof ModelSpec.Mlp mlp)) {
      return null;
    }
    Map<String, @Nullable Object> keys = new LinkedHashMap<>();
    keys.put("hidden", mlp.hidden());
    keys.put("outputs", mlp.outputs());
    return keys;
  }
}
