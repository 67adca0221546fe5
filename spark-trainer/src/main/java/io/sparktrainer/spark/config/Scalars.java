package io.sparktrainer.spark.config;

import java.util.Locale;
import org.jspecify.annotations.Nullable;
import org.yaml.snakeyaml.nodes.Node;
import org.yaml.snakeyaml.nodes.ScalarNode;
import org.yaml.snakeyaml.nodes.Tag;

/** Numbers and flags as YAML writes them. */
final class Scalars {
  private Scalars() {}

  static @Nullable Long integer(Node node) {
    if (!(node instanceof ScalarNode scalar) || node.getTag().equals(Tag.STR)) {
      return null;
    }
    try {
      return Long.valueOf(scalar.getValue().replace("_", ""));
    } catch (NumberFormatException e) {
      return null;
    }
  }

  /** YAML 1.1 reads 1e-3 as a text, for it lacks the dot; people mean the number. */
  static @Nullable Double number(Node node) {
    if (!(node instanceof ScalarNode scalar)
        || (node.getTag().equals(Tag.STR)
            && scalar.getScalarStyle() != org.yaml.snakeyaml.DumperOptions.ScalarStyle.PLAIN)) {
      return null;
    }
    String text = scalar.getValue().replace("_", "");
    if (!text.matches("[-+]?(\\d+\\.?\\d*|\\.\\d+)([eE][-+]?\\d+)?")) {
      return null;
    }
    return Double.valueOf(text);
  }

  static boolean isTrue(Node node) {
    String value = ((ScalarNode) node).getValue().toLowerCase(Locale.ROOT);
    return value.equals("true") || value.equals("yes") || value.equals("on");
  }
}
