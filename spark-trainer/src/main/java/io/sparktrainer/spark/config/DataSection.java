package io.sparktrainer.spark.config;

import io.sparktrainer.data.InputSpec;
import io.sparktrainer.data.TensorSchema;
import io.sparktrainer.data.Validation;
import io.sparktrainer.nn.Losses;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Reads and writes {@code data}. */
final class DataSection {
  private DataSection() {}

  /**
   * @param loss which needs a label, or none
   */
  static @Nullable DataConfig read(Section section, Losses loss) {
    DataConfig.Builder builder =
        DataConfig.builder()
            .source(source(section))
            .weight(section.text("weight"))
            .shuffle(section.flag("shuffle", true))
            .rows(RowKeys.read(section));
    readValidation(section, builder);
    Long seed = section.integer("seed", Long.MIN_VALUE);
    builder.seed(seed == null ? 0 : seed);
    boolean complete = readInputs(section, builder);
    if (section.has("label")) {
      builder.label(InputKeys.read(section, TensorSchema.LABEL));
    } else if (loss != Losses.OUTPUT) {
      section.missing("label", "the label column");
      complete = false;
    }
    section.finish();
    return complete ? section.build(builder::build) : null;
  }

  /**
   * {@code inputs} by name, or {@code features} for the only one. Returns whether there are any.
   */
  private static boolean readInputs(Section section, DataConfig.Builder builder) {
    Section inputs = section.section("inputs");
    boolean several = section.has("inputs");
    for (String name : inputs.keys()) {
      InputSpec input = InputKeys.read(inputs, name);
      if (input != null) {
        builder.input(input);
      }
    }
    inputs.finish();
    List<String> features = section.texts("features");
    builder
        .shape(section.integers("shape", 1))
        .images(InputKeys.images(section))
        .ragged(InputKeys.ragged(section));
    if (several) {
      for (String key : List.of("features", "shape", "images", "ragged")) {
        if (section.has(key)) {
          section.problem(
              key, "has no effect beside inputs. Name it under the input that it is for.");
        }
      }
      return !inputs.keys().isEmpty();
    }
    if (!section.has("features")) {
      section.missing("features", "the feature columns, such as [x1, x2]");
    }
    builder.features(features);
    return section.has("features");
  }

  /** A fraction, the column that marks the rows, or a DataFrame of their own. */
  private static void readValidation(Section section, DataConfig.Builder builder) {
    Section validation = section.section("validation", "fraction");
    String column = validation.text("column");
    DataSource source = source(validation);
    double fraction = validation.number("fraction", NumberRange.FRACTION, 0);
    validation.finish();
    if (column != null) {
      builder.validation(Validation.column(column));
    } else {
      builder.validation(fraction);
    }
    builder.validation(source);
  }

  private static Object written(DataConfig data) {
    if (data.validationSource() != null) {
      Map<String, @Nullable Object> keys = new LinkedHashMap<>();
      write(data.validationSource(), keys);
      return keys;
    }
    if (data.validation() instanceof Validation.Column marked) {
      return Map.of("column", marked.column());
    }
    return data.validation() instanceof Validation.Fraction part ? part.fraction() : 0.0;
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

  private static void write(DataSource source, Map<String, @Nullable Object> keys) {
    keys.put("source", source.format());
    keys.put(DataSource.placeKey(source.format()), source.path());
    keys.put("options", source.options());
  }

  static Map<String, @Nullable Object> write(DataConfig data) {
    Map<String, @Nullable Object> keys = new LinkedHashMap<>();
    if (data.source() != null) {
      write(data.source(), keys);
    }
    InputSpec only = data.inputs().get(0);
    if (data.inputs().size() == 1
        && only.name().equals(DataConfig.FEATURES)
        && only.type() == null) {
      keys.put("features", only.columns());
      InputKeys.writeForm(only, keys);
    } else {
      Map<String, @Nullable Object> inputs = new LinkedHashMap<>();
      data.inputs().forEach(input -> inputs.put(input.name(), InputKeys.write(input)));
      keys.put("inputs", inputs);
    }
    if (data.label() != null) {
      keys.put("label", InputKeys.write(data.label()));
    }
    keys.put("weight", data.weight());
    keys.put("validation", written(data));
    keys.put("shuffle", data.shuffle());
    keys.put("seed", data.seed());
    RowKeys.write(data.rows(), keys);
    return keys;
  }
}
