package io.sparktrainer.spark.config;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Reads and writes {@code data}. */
final class DataSection {
  private DataSection() {}

  static @Nullable DataConfig read(Section section) {
    DataConfig.Builder builder =
        DataConfig.builder()
            .source(source(section))
            .shape(section.integers("shape", 1))
            .validation(section.number("validation", NumberRange.FRACTION, 0))
            .shuffle(section.flag("shuffle", true));
    Long seed = section.integer("seed", Long.MIN_VALUE);
    builder.seed(seed == null ? 0 : seed);
    List<String> features = section.texts("features");
    String label = section.text("label");
    if (!section.has("features")) {
      section.missing("features", "the feature columns, such as [x1, x2]");
    }
    if (label == null) {
      section.missing("label", "the label column");
    }
    section.finish();
    if (label == null || !section.has("features")) {
      return null;
    }
    return section.build(() -> builder.features(features).label(label).build());
  }

  private static @Nullable DataSource source(Section section) {
    String format = section.text("source");
    String path = section.text("path");
    Map<String, String> options = section.textMap("options");
    if (format == null) {
      if (path != null) {
        section.missing("source", "the format of path, such as parquet, csv, table or mnist");
      }
      return null;
    }
    if (path == null) {
      section.missing("path", "the folder, file or table to read");
      return null;
    }
    return new DataSource(format, path, options);
  }

  static Map<String, @Nullable Object> write(DataConfig data) {
    Map<String, @Nullable Object> keys = new LinkedHashMap<>();
    if (data.source() != null) {
      keys.put("source", data.source().format());
      keys.put("path", data.source().path());
      keys.put("options", data.source().options());
    }
    keys.put("features", data.features());
    keys.put("shape", data.shape());
    keys.put("label", data.label());
    keys.put("validation", data.validation());
    keys.put("shuffle", data.shuffle());
    keys.put("seed", data.seed());
    return keys;
  }
}
