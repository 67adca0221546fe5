package io.sparktrainer.spark.config;

import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import org.yaml.snakeyaml.nodes.MappingNode;
import org.yaml.snakeyaml.nodes.Node;
import org.yaml.snakeyaml.nodes.NodeTuple;
import org.yaml.snakeyaml.nodes.ScalarNode;
import org.yaml.snakeyaml.nodes.SequenceNode;
import org.yaml.snakeyaml.nodes.Tag;

/** Reading YAML nodes. */
final class Nodes {
  private static final int SHOWN_CHARACTERS = 40;

  private Nodes() {}

  static String keyOf(NodeTuple tuple) {
    return tuple.getKeyNode() instanceof ScalarNode scalar
        ? scalar.getValue()
        : describe(tuple.getKeyNode());
  }

  static @Nullable Node find(MappingNode mapping, String key) {
    for (NodeTuple tuple : mapping.getValue()) {
      if (keyOf(tuple).equals(key)) {
        return tuple.getValueNode();
      }
    }
    return null;
  }

  static boolean isNull(Node node) {
    return node instanceof ScalarNode && node.getTag().equals(Tag.NULL);
  }

  /** A value for a message: as it was written, or what kind of value it is. */
  static String describe(Node node) {
    if (node instanceof ScalarNode scalar) {
      if (isNull(node)) {
        return "nothing";
      }
      String value = scalar.getValue();
      return value.length() <= SHOWN_CHARACTERS
          ? "'" + value + "'"
          : "'" + value.substring(0, SHOWN_CHARACTERS) + "...'";
    }
    if (node instanceof SequenceNode sequence) {
      return "a list of " + sequence.getValue().size();
    }
    if (node instanceof MappingNode mapping) {
      return mapping.getValue().stream()
          .map(Nodes::keyOf)
          .limit(4)
          .collect(Collectors.joining(", ", "keys (", ")"));
    }
    return "something else";
  }
}
