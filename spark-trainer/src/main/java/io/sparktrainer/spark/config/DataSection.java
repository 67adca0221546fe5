package io.sparktrainer.spark.config;

import io.sparktrainer.data.Validation;
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
            .validation(validation(section))
            .shuffle(section.flag("shuffle", true))
            .rows(RowKeys.read(section));
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

  /** A fraction, or the column that marks the rows. */
  private static Validation validation(Section section) {
    Section validation = section.section("validation", "fraction");
    String column = validation.text("column");
    double fraction = validation.number("fraction", NumberRange.FRACTION, 0);
    validation.finish();
    if (column != null) {
      return Validation.column(column);
    }
    return fraction == 0 ? Validation.none() : Validation.fraction(fraction);
  }

  private static Object written(Validation validation) {
    if (validation instanceof Validation.Column marked) {
      return Map.of("column", marked.column());
    }
    return validation instanceof Validation.Fraction part ? part.fraction() : 0.0;
  }

  private static @Nullable DataSource source(Section section) {
    String format = section.text("source");
    Map<String, String> options = section.textMap("options");
    String key = DataSource.placeKey(format == null ? "" : format);
    String place = section.text(key);
    if (format == null) {
      if (place != null) {
        section.missing("source", "the format of path, such as parquet, csv or mnist");
      }
      return null;
    }
    if (place == null) {
      section.missing(key, "what " + format + " is to read");
      return null;
    }
    return new DataSource(format, place, options);
  }

  static Map<String, @Nullable Object> write(DataConfig data) {
    Map<String, @Nullable Object> keys = new LinkedHashMap<>();
    if (data.source() != null) {
      keys.put("source", data.source().format());
      keys.put(DataSource.placeKey(data.source().format()), data.source().path());
      keys.put("options", data.source().options());
    }
    keys.put("features", data.features());
    keys.put("shape", data.shape());
    keys.put("label", data.label());
    keys.put("validation", written(data.validation()));
    keys.put("shuffle", data.shuffle());
    keys.put("seed", data.seed());
    RowKeys.write(data.rows(), keys);
    return keys;
  }
}
