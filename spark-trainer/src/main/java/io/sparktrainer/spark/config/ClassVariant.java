package io.sparktrainer.spark.config;

import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** {@code model: {type: class, name: com.acme.Net}}. */
final class ClassVariant implements Variant<ModelSpec> {
  @Override
  public String name() {
    return "class";
  }

  @Override
  public @Nullable ModelSpec read(Section section) {
    String name = section.text("name");
    Integer outputs = ModelSection.outputs(section);
    if (name == null) {
      section.missing("name", "the name of a class, such as com.acme.Net");
      return null;
    }
    return section.build(() -> new ModelSpec.OfClass(name, outputs));
  }

  @Override
  public @Nullable Map<String, @Nullable Object> write(ModelSpec value) {
    if (!(value instanceof ModelSpec.OfClass ofClass)) {
      return null;
    }
    Map<String, @Nullable Object> keys = new LinkedHashMap<>();
    keys.put("name", ofClass.name());
    keys.put("outputs", ofClass.outputs());
    return keys;
  }
}
