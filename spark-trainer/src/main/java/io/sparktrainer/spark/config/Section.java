package io.sparktrainer.spark.config;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.yaml.snakeyaml.nodes.MappingNode;
import org.yaml.snakeyaml.nodes.Node;
import org.yaml.snakeyaml.nodes.NodeTuple;
import org.yaml.snakeyaml.nodes.ScalarNode;
import org.yaml.snakeyaml.nodes.SequenceNode;
import org.yaml.snakeyaml.nodes.Tag;

/**
 * Reads one mapping of a configuration. A value that is wrong becomes a problem and reads as its
 * default, so that reading goes on and finds the next mistake. {@link #finish()} reports the keys
 * that nobody asked for.
 */
final class Section {
  private final String path;
  private final String place;
  private final Map<String, Node> values = new LinkedHashMap<>();
  private final Map<String, Node> keys = new LinkedHashMap<>();
  private final Set<String> known = new LinkedHashSet<>();
  private final Set<String> notInThisVersion = new LinkedHashSet<>();
  private final YamlSource source;
  private final Problems problems;

  Section(
      String path, String place, @Nullable MappingNode node, YamlSource source, Problems problems) {
    this.path = path;
    this.place = place;
    this.source = source;
    this.problems = problems;
    if (node != null) {
      for (NodeTuple tuple : node.getValue()) {
        String key = Nodes.keyOf(tuple);
        if (values.put(key, tuple.getValueNode()) != null) {
          problems.add(child(key), source.place(tuple.getKeyNode()), "the key is there twice.");
        }
        keys.put(key, tuple.getKeyNode());
      }
    }
  }

  /** Dotted path of this section. */
  String path() {
    return path;
  }

  /** The keys that are there, in their order. */
  List<String> keys() {
    return List.copyOf(values.keySet());
  }

  /** Whether the key is there with a value. */
  boolean has(String key) {
    return find(key) != null;
  }

  /** A text, or null where the key is absent. */
  @Nullable String text(String key) {
    Node node = find(key);
    if (node == null) {
      return null;
    }
    if (node instanceof ScalarNode scalar) {
      return scalar.getValue();
    }
    wrong(key, node, "a text");
    return null;
  }

  String text(String key, String fallback) {
    String value = text(key);
    return value == null ? fallback : value;
  }

  /** Whole number from {@code min} on, or null where the key is absent. */
  @Nullable Long integer(String key, long min) {
    Node node = find(key);
    if (node == null) {
      return null;
    }
    String allowed = min == Long.MIN_VALUE ? "a whole number" : "a whole number of at least " + min;
    Long value = Scalars.integer(node);
    if (value == null || value < min) {
      wrong(key, node, allowed);
      return null;
    }
    return value;
  }

  int integer(String key, int min, int fallback) {
    Long value = integer(key, min);
    if (value == null) {
      return fallback;
    }
    if (value > Integer.MAX_VALUE) {
      wrong(key, values.get(key), "a whole number of at most " + Integer.MAX_VALUE);
      return fallback;
    }
    return value.intValue();
  }

  /** Number within {@code range}, or null where the key is absent. */
  @Nullable Double number(String key, NumberRange range) {
    Node node = find(key);
    if (node == null) {
      return null;
    }
    Double value = Scalars.number(node);
    if (value == null || !range.contains(value)) {
      wrong(key, node, range.toString());
      return null;
    }
    return value;
  }

  double number(String key, NumberRange range, double fallback) {
    Double value = number(key, range);
    return value == null ? fallback : value;
  }

  boolean flag(String key, boolean fallback) {
    Node node = find(key);
    if (node == null) {
      return fallback;
    }
    if (node.getTag().equals(Tag.BOOL)) {
      return Scalars.isTrue(node);
    }
    wrong(key, node, "true or false");
    return fallback;
  }

  /** One of an enum's names in lower case, or null where the key is absent. */
  <E extends Enum<E>> @Nullable E oneOf(String key, Class<E> type) {
    String value = text(key);
    if (value == null) {
      return null;
    }
    List<String> names = new ArrayList<>();
    for (E constant : type.getEnumConstants()) {
      String name = constant.name().toLowerCase(Locale.ROOT);
      if (name.equals(value)) {
        return constant;
      }
      names.add(name);
    }
    unknownName(key, value, names);
    return null;
  }

  <E extends Enum<E>> E oneOf(String key, Class<E> type, E fallback) {
    E value = oneOf(key, type);
    return value == null ? fallback : value;
  }

  /** One of an enum's names as they are, which are those that PyTorch uses. */
  <E extends Enum<E>> E constant(String key, Class<E> type, E fallback) {
    String value = text(key);
    if (value == null) {
      return fallback;
    }
    List<String> names = new ArrayList<>();
    for (E constant : type.getEnumConstants()) {
      if (constant.name().equals(value)) {
        return constant;
      }
      names.add(constant.name());
    }
    unknownName(key, value, names);
    return fallback;
  }

  /** List of texts; one text is a list of one. Empty where the key is absent. */
  List<String> texts(String key) {
    List<String> found = new ArrayList<>();
    for (Node item : items(key)) {
      if (item instanceof ScalarNode scalar && !Nodes.isNull(item)) {
        found.add(scalar.getValue());
      } else {
        wrong(key, item, "a list of texts");
      }
    }
    return found;
  }

  /** List of whole numbers from {@code min} on; empty where the key is absent. */
  List<Integer> integers(String key, int min) {
    List<Integer> found = new ArrayList<>();
    for (Node item : items(key)) {
      Long value = Scalars.integer(item);
      if (value == null || value < min || value > Integer.MAX_VALUE) {
        wrong(key, item, "a list of whole numbers of at least " + min);
      } else {
        found.add(value.intValue());
      }
    }
    return found;
  }

  /** Keys and values as texts; empty where the key is absent. */
  Map<String, String> textMap(String key) {
    Map<String, String> found = new LinkedHashMap<>();
    Node node = find(key);
    if (node instanceof MappingNode mapping) {
      for (NodeTuple tuple : mapping.getValue()) {
        if (tuple.getValueNode() instanceof ScalarNode scalar) {
          found.put(Nodes.keyOf(tuple), scalar.getValue());
        } else {
          wrong(key, tuple.getValueNode(), "keys with texts");
        }
      }
    } else if (node != null) {
      wrong(key, node, "keys with texts");
    }
    return found;
  }

  /** The section below {@code key}; an empty one where it is absent. */
  Section section(String key) {
    return section(key, null);
  }

  /**
   * The section below {@code key}; a single value or a list there is short for a section that holds
   * it under {@code shorthand}.
   */
  Section section(String key, @Nullable String shorthand) {
    Node node = find(key);
    String at = node == null ? place : source.place(node);
    if (node instanceof MappingNode mapping) {
      return new Section(child(key), at, mapping, source, problems);
    }
    Section section = new Section(child(key), at, null, source, problems);
    if ((node instanceof ScalarNode || node instanceof SequenceNode) && shorthand != null) {
      section.values.put(shorthand, node);
      section.keys.put(shorthand, node);
    } else if (node != null) {
      wrong(key, node, "keys with values");
    }
    return section;
  }

  /**
   * A key of the format that this version does not support: fine where it is absent or switched
   * off, else a problem.
   *
   * @param off how it reads when it is switched off
   */
  void notInThisVersion(String key, String... off) {
    notInThisVersion.add(key);
    known.add(key);
    Node node = values.get(key);
    if (node == null || Nodes.isNull(node)) {
      return;
    }
    if (node instanceof ScalarNode scalar && List.of(off).contains(scalar.getValue())) {
      return;
    }
    problems.add(
        child(key),
        source.place(node),
        "this version does not have it, got %s. Take the key out.".formatted(Nodes.describe(node)));
  }

  /**
   * Reports a key that nobody asked for, but that has a meaning in other circumstances.
   *
   * @param circumstances why it has none here
   */
  void withoutEffect(String key, String circumstances) {
    if (values.containsKey(key) && !known.contains(key)) {
      problem(key, "has no effect " + circumstances + ". Take it out.");
    }
    if (known.add(key)) {
      notInThisVersion.add(key);
    }
  }

  /** Reports a mistake about {@code key}, or about the section where the key is absent. */
  void problem(String key, String message) {
    Node node = values.get(key);
    problems.add(child(key), node == null ? place : source.place(node), message);
  }

  /** Reports that a key is needed. */
  void missing(String key, String expected) {
    problems.add(child(key), place, "expected " + expected + ", got nothing.");
  }

  /** Reports a name that is none of {@code allowed}. */
  void unknownName(String key, String found, List<String> allowed) {
    String nearest = NearestName.of(found, allowed);
    problem(
        key,
        "expected one of %s, got '%s'.%s"
            .formatted(
                String.join(", ", allowed),
                found,
                nearest == null ? "" : " Did you mean " + nearest + "?"));
  }

  /** Builds a value from what was read; a value that its constructor refuses becomes a problem. */
  <T> @Nullable T build(Supplier<T> constructor) {
    try {
      return constructor.get();
    } catch (IllegalArgumentException e) {
      problems.add(path, place, String.valueOf(e.getMessage()));
      return null;
    }
  }

  /** Takes every key as known: of a kind that nobody knows, no key can be called wrong. */
  void acceptRest() {
    known.addAll(values.keySet());
  }

  /** Reports every key that was not asked for. */
  void finish() {
    Set<String> supported = new LinkedHashSet<>(known);
    supported.removeAll(notInThisVersion);
    for (Map.Entry<String, Node> entry : keys.entrySet()) {
      String key = entry.getKey();
      if (!known.contains(key)) {
        String nearest = NearestName.of(key, supported);
        problems.add(
            child(key),
            source.place(entry.getValue()),
            "unknown key.%s Allowed here: %s."
                .formatted(
                    nearest == null ? "" : " Did you mean " + nearest + "?",
                    supported.isEmpty() ? "none" : String.join(", ", supported)));
      }
    }
  }

  private List<Node> items(String key) {
    Node node = find(key);
    if (node == null) {
      return List.of();
    }
    if (node instanceof SequenceNode sequence) {
      return sequence.getValue();
    }
    return List.of(node);
  }

  private @Nullable Node find(String key) {
    known.add(key);
    Node node = values.get(key);
    return node == null || Nodes.isNull(node) ? null : node;
  }

  private void wrong(String key, @Nullable Node node, String expected) {
    problems.add(
        child(key),
        node == null ? place : source.place(node),
        "expected %s, got %s."
            .formatted(expected, node == null ? "nothing" : Nodes.describe(node)));
  }

  private String child(String key) {
    return path.isEmpty() ? key : path + "." + key;
  }
}
