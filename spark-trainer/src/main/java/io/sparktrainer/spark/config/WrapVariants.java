package io.sparktrainer.spark.config;

import io.sparktrainer.strategy.WrapPolicy;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.jspecify.annotations.Nullable;

/** Reads and writes {@code fsdp.wrap}: which blocks become units. */
final class WrapVariants {
  /** Key that names the policy; a wrap that is one word is short for it. */
  static final String POLICY = "policy";

  private static final Variants<WrapPolicy> POLICIES =
      new Variants<>(POLICY, List.of(new Blocks(), new Size(), new Classes(), new Model()));

  private WrapVariants() {}

  static @Nullable WrapPolicy read(Section section) {
    WrapPolicy policy = POLICIES.read(section, "blocks");
    section.finish();
    return policy;
  }

  static Map<String, @Nullable Object> write(WrapPolicy policy) {
    return POLICIES.write(policy);
  }

  private static final class Blocks implements Variant<WrapPolicy> {
    @Override
    public String name() {
      return "blocks";
    }

    @Override
    public WrapPolicy read(Section section) {
      return new WrapPolicy.MarkedBlocks();
    }

    @Override
    public @Nullable Map<String, @Nullable Object> write(WrapPolicy value) {
      return value instanceof WrapPolicy.MarkedBlocks ? Map.of() : null;
    }
  }

  private static final class Size implements Variant<WrapPolicy> {
    @Override
    public String name() {
      return "size";
    }

    @Override
    public @Nullable WrapPolicy read(Section section) {
      Long minimum = section.integer("min_parameters", 1);
      if (!section.has("min_parameters")) {
        section.missing("min_parameters", "the fewest parameters of a unit, such as 1000000");
      }
      return minimum == null ? null : new WrapPolicy.MinParameters(minimum);
    }

    @Override
    public @Nullable Map<String, @Nullable Object> write(WrapPolicy value) {
      if (!(value instanceof WrapPolicy.MinParameters size)) {
        return null;
      }
      Map<String, @Nullable Object> keys = new LinkedHashMap<>();
      keys.put("min_parameters", size.minParameters());
      return keys;
    }
  }

  private static final class Classes implements Variant<WrapPolicy> {
    @Override
    public String name() {
      return "class";
    }

    @Override
    public @Nullable WrapPolicy read(Section section) {
      List<String> names = section.texts("names");
      if (names.isEmpty()) {
        section.missing("names", "class names of the units, such as [GptBlock]");
        return null;
      }
      return section.build(() -> new WrapPolicy.ClassNames(Set.copyOf(names)));
    }

    @Override
    public @Nullable Map<String, @Nullable Object> write(WrapPolicy value) {
      if (!(value instanceof WrapPolicy.ClassNames classes)) {
        return null;
      }
      Map<String, @Nullable Object> keys = new LinkedHashMap<>();
      keys.put("names", List.copyOf(new TreeSet<>(classes.names())));
      return keys;
    }
  }

  private static final class Model implements Variant<WrapPolicy> {
    @Override
    public String name() {
      return "model";
    }

    @Override
    public WrapPolicy read(Section section) {
      return new WrapPolicy.WholeModel();
    }

    @Override
    public @Nullable Map<String, @Nullable Object> write(WrapPolicy value) {
      return value instanceof WrapPolicy.WholeModel ? Map.of() : null;
    }
  }
}
