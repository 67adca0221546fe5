package io.sparktrainer.data;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.LocalDate;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Stream;

/** A table of rates in Markdown, with date and machine. */
final class RateTable {
  private RateTable() {}

  /**
   * Renders a table: a line for each way, a column for each layout.
   *
   * @param description of what was measured
   * @param software and its version, beside that of the JDK
   * @param reference the way that all are compared with
   * @param results rates by way, by layout
   */
  static String of(
      String title,
      String description,
      String software,
      String reference,
      Map<String, Map<String, Rate>> results) {
    List<String> lines = new ArrayList<>();
    lines.add("# %s, %s".formatted(title, LocalDate.now(ZoneOffset.UTC)));
    lines.add("");
    lines.add(description);
    lines.add(
        "Machine: %s, %d cores, JDK %s, %s."
            .formatted(
                cpu(),
                Runtime.getRuntime().availableProcessors(),
                System.getProperty("java.version"),
                software));
    lines.add("");
    lines.add("| | " + String.join(" | ", results.keySet()) + " |");
    lines.add("| --- |" + " --- |".repeat(results.size()));
    for (String way : results.values().iterator().next().keySet()) {
      StringBuilder line = new StringBuilder("| " + way + " |");
      results.values().forEach(rates -> line.append(cell(rates.get(way), rates.get(reference))));
      lines.add(line.toString());
    }
    return String.join("\n", lines) + "\n";
  }

  private static String cell(Rate rate, Rate reference) {
    return String.format(
        Locale.ROOT,
        " %.2f (%.1fx), %.0f ns (%.1fx) |",
        rate.perSecond() / 1e6,
        rate.perSecond() / reference.perSecond(),
        rate.cpuNanos(),
        reference.cpuNanos() / rate.cpuNanos());
  }

  private static String cpu() {
    try (Stream<String> info = Files.lines(Path.of("/proc/cpuinfo"))) {
      return info.filter(line -> line.startsWith("model name"))
          .findFirst()
          .map(line -> line.substring(line.indexOf(':') + 1).strip())
          .orElse("unknown processor");
    } catch (IOException e) {
      return System.getProperty("os.arch");
    }
  }
}
