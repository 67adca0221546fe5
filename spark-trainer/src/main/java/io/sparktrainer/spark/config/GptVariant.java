package io.sparktrainer.spark.config;

import io.sparktrainer.nn.GptConfig;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** {@code model: gpt}. */
final class GptVariant implements Variant<ModelSpec> {
  @Override
  public String name() {
    return "gpt";
  }

  @Override
  public @Nullable ModelSpec read(Section section) {
    GptConfig defaults = GptConfig.builder().build();
    GptConfig.Builder builder =
        GptConfig.builder()
            .vocab(section.integer("vocab", 1, defaults.vocab()))
            .context(section.integer("context", 1, defaults.context()))
            .width(section.integer("width", 1, defaults.width()))
            .heads(section.integer("heads", 1, defaults.heads()))
            .layers(section.integer("layers", 1, defaults.layers()))
            .tied(section.flag("tied", defaults.tied()))
            .dropout(section.number("dropout", NumberRange.FRACTION, defaults.dropout()));
    return section.build(() -> new ModelSpec.Gpt(builder.build()));
  }

  @Override
  public @Nullable Map<String, @Nullable Object> write(ModelSpec value) {
    if (!(value instanceof ModelSpec.Gpt gpt)) {
      return null;
    }
    GptConfig sizes = gpt.sizes();
    Map<String, @Nullable Object> keys = new LinkedHashMap<>();
    keys.put("vocab", sizes.vocab());
    keys.put("context", sizes.context());
    keys.put("width", sizes.width());
    keys.put("heads", sizes.heads());
    keys.put("layers", sizes.layers());
    keys.put("tied", sizes.tied());
    keys.put("dropout", sizes.dropout());
    return keys;
  }
}
