package io.sparktrainer.spark.config;

import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** {@code model: cnn}. */
final class CnnVariant implements Variant<ModelSpec> {
  @Override
  public String name() {
    return "cnn";
  }

  @Override
  public @Nullable ModelSpec read(Section section) {
    int filters = section.integer("filters", 1, ModelSpec.Cnn.DEFAULT_FILTERS);
    Integer outputs = ModelSection.outputs(section);
    return section.build(() -> new ModelSpec.Cnn(filters, outputs));
  }

  @Override
  public @Nullable Map<String, @Nullable Object> write(ModelSpec value) {
    if (!(value instanceof ModelSpec.Cnn cnn)) {
      return null;
    }
    Map<String, @Nullable Object> keys = new LinkedHashMap<>();
    keys.put("filters", cnn.filters());
    keys.put("outputs", cnn.outputs());
    return keys;
  }
}
