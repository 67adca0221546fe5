package io.sparktrainer.spark.config;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The kinds of value that a section can hold.
 *
 * @param <T> what all kinds have in common
 */
final class Variants<T> {
  private final String discriminator;
  private final List<Variant<T>> variants;
  private final List<String> notInThisVersion;

  /**
   * @param discriminator key that names the kind
   * @param notInThisVersion kinds of the format that this version lacks
   */
  Variants(String discriminator, List<Variant<T>> variants, String... notInThisVersion) {
    this.discriminator = discriminator;
    this.variants = List.copyOf(variants);
    this.notInThisVersion = List.of(notInThisVersion);
  }

  /** Reads the kind that the section names, else the one named {@code fallback}. */
  @Nullable T read(Section section, String fallback) {
    return find(section, section.text(discriminator, fallback));
  }

  /** Reads the kind that the section names; it has to name one. */
  @Nullable T read(Section section) {
    String name = section.text(discriminator);
    if (name == null) {
      section.missing(discriminator, "one of " + String.join(", ", names()));
      section.acceptRest();
      return null;
    }
    return find(section, name);
  }

  private @Nullable T find(Section section, String name) {
    for (Variant<T> variant : variants) {
      if (variant.name().equals(name)) {
        return variant.read(section);
      }
    }
    section.acceptRest();
    if (notInThisVersion.contains(name)) {
      section.problem(
          discriminator,
          "this version does not have '%s'. Allowed: %s."
              .formatted(name, String.join(", ", names())));
    } else {
      section.unknownName(discriminator, name, names());
    }
    return null;
  }

  /** The value's keys, its kind's name first. */
  Map<String, @Nullable Object> write(T value) {
    for (Variant<T> variant : variants) {
      Map<String, @Nullable Object> keys = variant.write(value);
      if (keys != null) {
        Map<String, @Nullable Object> all = new LinkedHashMap<>();
        all.put(discriminator, variant.name());
        all.putAll(keys);
        return all;
      }
    }
    throw new IllegalStateException("Cannot write " + value + ": no kind of value takes it.");
  }

  private List<String> names() {
    List<String> names = new ArrayList<>();
    variants.forEach(variant -> names.add(variant.name()));
    return names;
  }
}
