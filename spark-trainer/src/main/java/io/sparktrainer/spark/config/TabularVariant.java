package io.sparktrainer.spark.config;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** {@code model: {type: tabular}}. */
final class TabularVariant implements Variant<ModelSpec> {
  private static final String AUTO = "auto";

  @Override
  public String name() {
    return "tabular";
  }

  @Override
  public @Nullable ModelSpec read(Section section) {
    List<Integer> hidden = section.integers("hidden", 1);
    Map<String, Integer> embeddings = new LinkedHashMap<>();
    Section sizes = section.section("embeddings", "size");
    String size = sizes.keys().equals(List.of("size")) ? sizes.text("size") : null;
    if (size == null) {
      for (String column : sizes.keys()) {
        embeddings.put(column, sizes.integer(column, 1, 1));
      }
      sizes.finish();
    } else if (!size.equals(AUTO)) {
      section.problem(
          "embeddings",
          "expected auto, or numbers of categories by column, such as {city: 30}, got '%s'."
              .formatted(size));
    }
    Integer width =
        section.has("embedding_width")
            ? Integer.valueOf(section.integer("embedding_width", 1, 1))
            : null;
    double dropout = section.number("dropout", NumberRange.FRACTION, 0);
    Integer outputs = ModelSection.outputs(section);
    return section.build(() -> new ModelSpec.Tabular(hidden, embeddings, width, dropout, outputs));
  }

  @Override
  public @Nullable Map<String, @Nullable Object> write(ModelSpec value) {
    if (!(value instanceof ModelSpec.Tabular tabular)) {
      return null;
    }
    Map<String, @Nullable Object> keys = new LinkedHashMap<>();
    keys.put("hidden", tabular.hidden());
    keys.put("embeddings", tabular.embeddings().isEmpty() ? AUTO : tabular.embeddings());
    keys.put("embedding_width", tabular.embeddingWidth());
    keys.put("dropout", tabular.dropout());
    keys.put("outputs", tabular.outputs());
    return keys;
  }
}
