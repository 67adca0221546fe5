package io.sparktrainer.spark.config;

import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;

/** A configuration that cannot be used, with every mistake that was found in it. */
public final class ConfigException extends IllegalArgumentException {
  private static final long serialVersionUID = 1L;

  private final ArrayList<String> mistakes;
  private final transient List<Problem> problems;

  public ConfigException(List<Problem> problems) {
    super(message(problems));
    this.problems = List.copyOf(problems);
    this.mistakes = new ArrayList<>(problems.stream().map(Problem::toString).toList());
  }

  /** Every mistake, in the order of the file. Empty after deserialization. */
  public List<Problem> problems() {
    return problems == null ? List.of() : problems;
  }

  /** Every mistake as one line. */
  public List<String> mistakes() {
    return List.copyOf(mistakes);
  }

  private static String message(List<Problem> problems) {
    return problems.stream()
        .map(problem -> "  " + problem)
        .collect(
            Collectors.joining(
                "\n",
                "Cannot use the configuration: %d %s.\n"
                    .formatted(problems.size(), problems.size() == 1 ? "mistake" : "mistakes"),
                ""));
  }
}
