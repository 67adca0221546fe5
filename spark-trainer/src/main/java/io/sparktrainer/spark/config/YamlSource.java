package io.sparktrainer.spark.config;

import java.io.StringReader;
import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.yaml.snakeyaml.DumperOptions.FlowStyle;
import org.yaml.snakeyaml.LoaderOptions;
import org.yaml.snakeyaml.Yaml;
import org.yaml.snakeyaml.error.Mark;
import org.yaml.snakeyaml.error.MarkedYAMLException;
import org.yaml.snakeyaml.error.YAMLException;
import org.yaml.snakeyaml.nodes.MappingNode;
import org.yaml.snakeyaml.nodes.Node;
import org.yaml.snakeyaml.nodes.NodeTuple;
import org.yaml.snakeyaml.nodes.ScalarNode;
import org.yaml.snakeyaml.nodes.Tag;

/**
 * A YAML text as a tree of nodes that remember where they came from. Only nodes are made, never
 * objects that a tag names.
 */
final class YamlSource {
  private final String name;
  private final Problems problems;
  private final IdentityHashMap<Node, String> places = new IdentityHashMap<>();

  YamlSource(String name, Problems problems) {
    this.name = name;
    this.problems = problems;
  }

  /** The text's root mapping; an empty one where the text is empty or broken. */
  MappingNode parse(String text) {
    Node root = compose(text, name, "");
    if (root == null) {
      return mapping();
    }
    if (root instanceof MappingNode mapping) {
      return mapping;
    }
    problems.add("", place(root), "expected keys with values, got " + Nodes.describe(root) + ".");
    return mapping();
  }

  /**
   * Replaces or adds one value.
   *
   * @param override {@code a.b=value}; the value is YAML
   */
  void override(MappingNode root, String override) {
    String place = "--set " + override;
    int equals = override.indexOf('=');
    if (equals < 1) {
      problems.add("", place, "expected KEY=VALUE, such as training.epochs=3.");
      return;
    }
    String path = override.substring(0, equals).strip();
    Node value = compose(override.substring(equals + 1), place, path);
    if (value == null) {
      value =
          new ScalarNode(
              Tag.NULL, "", null, null, org.yaml.snakeyaml.DumperOptions.ScalarStyle.PLAIN);
    }
    mark(value, place);
    String[] keys = path.split("\\.", -1);
    MappingNode parent = root;
    for (int i = 0; i < keys.length - 1; i++) {
      parent = childMapping(parent, keys[i], place);
    }
    put(parent, keys[keys.length - 1], value, place);
  }

  /** File and line of a node, or the option that it came from. */
  String place(Node node) {
    String known = places.get(node);
    if (known != null) {
      return known;
    }
    Mark mark = node.getStartMark();
    return mark == null ? name : name + ":" + (mark.getLine() + 1);
  }

  private @Nullable Node compose(String text, String place, String path) {
    LoaderOptions options = new LoaderOptions();
    options.setMaxAliasesForCollections(50);
    try {
      return new Yaml(options).compose(new StringReader(text));
    } catch (MarkedYAMLException e) {
      Mark mark = e.getProblemMark();
      String where =
          mark == null || !place.equals(name) ? place : name + ":" + (mark.getLine() + 1);
      problems.add(path, where, "this is not YAML: " + e.getProblem() + ".");
    } catch (YAMLException e) {
      problems.add(path, place, "this is not YAML: " + e.getMessage());
    }
    return null;
  }

  private MappingNode childMapping(MappingNode parent, String key, String place) {
    for (NodeTuple tuple : parent.getValue()) {
      if (Nodes.keyOf(tuple).equals(key) && tuple.getValueNode() instanceof MappingNode child) {
        return child;
      }
    }
    // "optimizer: adamw" is short for "optimizer: {type: adamw}", also when one of its keys is set
    Node shorthand = Nodes.find(parent, key);
    MappingNode child = mapping();
    if (shorthand instanceof ScalarNode scalar && !Nodes.isNull(scalar)) {
      child.getValue().add(new NodeTuple(key("type"), scalar));
    }
    put(parent, key, child, place);
    return child;
  }

  private void put(MappingNode parent, String key, Node value, String place) {
    List<NodeTuple> tuples = new ArrayList<>(parent.getValue());
    tuples.removeIf(tuple -> Nodes.keyOf(tuple).equals(key));
    Node keyNode = key(key);
    mark(keyNode, place);
    mark(value, place);
    tuples.add(new NodeTuple(keyNode, value));
    parent.setValue(tuples);
  }

  private void mark(Node node, String place) {
    places.put(node, place);
    if (node instanceof MappingNode mapping) {
      for (NodeTuple tuple : mapping.getValue()) {
        mark(tuple.getKeyNode(), place);
        mark(tuple.getValueNode(), place);
      }
    }
  }

  private static ScalarNode key(String key) {
    return new ScalarNode(
        Tag.STR, key, null, null, org.yaml.snakeyaml.DumperOptions.ScalarStyle.PLAIN);
  }

  private static MappingNode mapping() {
    return new MappingNode(Tag.MAP, new ArrayList<>(), FlowStyle.BLOCK);
  }
}
