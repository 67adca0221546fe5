package io.sparktrainer.data;

import java.io.Serializable;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.jspecify.annotations.Nullable;

/**
 * A Hadoop configuration on its way to the executors: names and values only. Hadoop's own form also
 * tells where each value is from, compressed value by value, which takes most of its time.
 */
final class HadoopSettings implements Serializable {
  private static final long serialVersionUID = 1L;

  private final HashMap<String, String> values;
  private transient @Nullable Configuration configuration;

  private HadoopSettings(Map<String, String> values) {
    this.values = new HashMap<>(values);
  }

  static HadoopSettings of(Configuration configuration) {
    Map<String, String> values = new HashMap<>();
    for (Map.Entry<String, String> entry : configuration) {
      values.put(entry.getKey(), entry.getValue());
    }
    return new HadoopSettings(values);
  }

  /** The same values; made once per process. */
  synchronized Configuration configuration() {
    Configuration known = configuration;
    if (known == null) {
      known = new Configuration(false);
      values.forEach(known::set);
      configuration = known;
    }
    return known;
  }
}
