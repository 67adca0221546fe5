package io.sparktrainer.spark.config;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Section {@code device.parallel.nccl}: environment variables that a rank sets before NCCL reads
 * them.
 *
 * @param variables names, which start with {@code NCCL_}, and values
 */
public record NcclSettings(Map<String, String> variables) {
  private static final String NAMES = "nccl-variables.txt";

  /** With it, NCCL would meet there instead of at the id that the ranks exchange. */
  private static final String COMM_ID = "NCCL_COMM_ID";

  public NcclSettings {
    variables = Collections.unmodifiableMap(new LinkedHashMap<>(variables));
    for (String name : variables.keySet()) {
      if (!name.matches("NCCL_[A-Z0-9_]+")) {
        throw new IllegalArgumentException(
            "Cannot set '%s' for NCCL: expected a name in capitals that starts with NCCL_, such as NCCL_DEBUG."
                .formatted(name));
      }
      if (name.equals(COMM_ID)) {
        throw new IllegalArgumentException(
            "Cannot set NCCL_COMM_ID: the ranks exchange an id of their own. Take it out.");
      }
    }
  }

  /** Sets nothing. */
  public static NcclSettings none() {
    return new NcclSettings(Map.of());
  }

  /** A line for each name that NCCL's guide does not have: a slip, or newer than our list. */
  public List<String> warnings() {
    if (variables.isEmpty()) {
      return List.of();
    }
    List<String> known = known();
    return variables.keySet().stream()
        .filter(name -> !known.contains(name))
        .map(name -> warning(name, known))
        .toList();
  }

  private static String warning(String name, List<String> known) {
    String nearest = NearestName.of(name, known);
    return "device.parallel.nccl sets %s, which the guide of NCCL 2.28 does not name; NCCL ignores what it does not know.%s"
        .formatted(name, nearest == null ? "" : " Did you mean " + nearest + "?");
  }

  private static List<String> known() {
    try (InputStream names = NcclSettings.class.getResourceAsStream(NAMES)) {
      if (names == null) {
        throw new IllegalStateException("Cannot check NCCL's variables: no " + NAMES + ".");
      }
      return new String(names.readAllBytes(), StandardCharsets.UTF_8).lines().toList();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
