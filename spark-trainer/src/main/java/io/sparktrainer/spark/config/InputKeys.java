package io.sparktrainer.spark.config;

import io.sparktrainer.data.ElementType;
import io.sparktrainer.data.ImageSpec;
import io.sparktrainer.data.InputSpec;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Reads and writes the keys that say how columns become one tensor: {@code columns}, {@code type},
 * {@code shape}, {@code images} and {@code ragged}.
 */
final class InputKeys {
  private static final List<String> RAGGED = List.of("fail", "{length: NUMBER}");

  private InputKeys() {}

  /**
   * An input under its name: a list of columns, or keys.
   *
   * @return null after a mistake was reported
   */
  static @Nullable InputSpec read(Section inputs, String name) {
    Section section = inputs.section(name, "columns");
    List<String> columns = section.texts("columns");
    if (!section.has("columns")) {
      section.missing("columns", "the columns of '" + name + "', such as [x1, x2]");
    }
    ElementType type = section.oneOf("type", ElementType.class);
    List<Integer> shape = section.integers("shape", 1);
    ImageSpec images = images(section);
    InputSpec.Ragged ragged = ragged(section);
    section.finish();
    if (columns.isEmpty()) {
      return null;
    }
    return section.build(
        () ->
            new InputSpec(
                name,
                columns,
                type,
                shape.isEmpty() ? null : shape.stream().map(Integer::longValue).toList(),
                ragged,
                images));
  }

  /** {@code images}: size and channels of decoded images; null where it is absent. */
  static @Nullable ImageSpec images(Section parent) {
    Section section = parent.section("images");
    if (!parent.has("images")) {
      return null;
    }
    Long height = section.integer("height", 1);
    Long width = section.integer("width", 1);
    for (String key : List.of("height", "width")) {
      if (!section.has(key)) {
        section.missing(key, "the " + key + " of the images in pixels, such as 32");
      }
    }
    int channels = section.integer("channels", 1, 3);
    ImageSpec.Range range = section.oneOf("range", ImageSpec.Range.class, ImageSpec.Range.UNIT);
    section.finish();
    if (height == null || width == null) {
      return null;
    }
    return section.build(
        () -> new ImageSpec(Math.toIntExact(height), Math.toIntExact(width), channels, range));
  }

  /** {@code ragged}: the length that arrays are padded to; null where they have to fit. */
  static InputSpec.@Nullable Ragged ragged(Section parent) {
    Section section = parent.section("ragged", "policy");
    Long length = section.integer("length", 1);
    String policy = section.text("policy");
    double pad = section.number("pad", NumberRange.ANY, 0);
    InputSpec.Ragged.Longer longer =
        section.oneOf("longer", InputSpec.Ragged.Longer.class, InputSpec.Ragged.Longer.FAIL);
    section.finish();
    if (policy != null && !policy.equals("fail")) {
      parent.unknownName("ragged", policy, RAGGED);
    } else if (policy == null && parent.has("ragged") && !section.has("length")) {
      section.missing("length", "the length that arrays are padded to");
    }
    return length == null
        ? null
        : section.build(() -> new InputSpec.Ragged(Math.toIntExact(length), pad, longer));
  }

  /** As short as it can be: a list of columns where nothing else is set. */
  static Object write(InputSpec input) {
    Map<String, @Nullable Object> keys = new LinkedHashMap<>();
    keys.put("columns", input.columns());
    if (input.type() != null) {
      keys.put("type", Names.of(input.type()));
    }
    writeForm(input, keys);
    return keys.size() == 1 ? input.columns() : keys;
  }

  /** Shape, images and padding, where they are set. */
  static void writeForm(InputSpec input, Map<String, @Nullable Object> keys) {
    if (input.rowShape() != null) {
      keys.put("shape", input.rowShape());
    }
    ImageSpec images = input.image();
    if (images != null) {
      Map<String, @Nullable Object> size = new LinkedHashMap<>();
      size.put("height", images.height());
      size.put("width", images.width());
      size.put("channels", images.channels());
      size.put("range", Names.of(images.range()));
      keys.put("images", size);
    }
    InputSpec.Ragged ragged = input.ragged();
    if (ragged != null) {
      Map<String, @Nullable Object> padding = new LinkedHashMap<>();
      padding.put("length", ragged.length());
      padding.put("pad", ragged.padValue());
      padding.put("longer", Names.of(ragged.longer()));
      keys.put("ragged", padding);
    }
  }
}
