package io.sparktrainer.spark.config;

import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Reads and writes {@code model}. */
final class ModelSection {
  private static final Variants<ModelSpec> MODELS =
      new Variants<>(
          "type",
          List.of(
              new MlpVariant(),
              new CnnVariant(),
              new GptVariant(),
              new TabularVariant(),
              new TorchScriptVariant(),
              new ClassVariant()),
          "resnet");

  private ModelSection() {}

  static @Nullable ModelSpec read(Section section) {
    ModelSpec model = MODELS.read(section);
    section.finish();
    return model;
  }

  static Map<String, @Nullable Object> write(ModelSpec model) {
    return MODELS.write(model);
  }

  /** Outputs per row, which every kind of model has; null where they come from the data. */
  static @Nullable Integer outputs(Section section) {
    return section.has("outputs") ? Integer.valueOf(section.integer("outputs", 1, 1)) : null;
  }
}
