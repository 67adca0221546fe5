package io.sparktrainer.devicecheck;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;

/** Collects what was checked, as a page of Markdown; a check that fails does not end the others. */
final class Report {
  private final StringBuilder page = new StringBuilder();
  private final List<String> failures = new ArrayList<>();

  void section(String title, String... columns) {
    line("");
    line("## " + title);
    line("");
    line("| " + String.join(" | ", columns) + " |");
    line("|" + " --- |".repeat(columns.length));
  }

  /** Adds a row; its last cell is what {@code check} returns, or why it failed. */
  void row(Callable<String> check, String... cells) {
    String name = String.join(", ", cells);
    String outcome;
    try {
      outcome = check.call();
    } catch (Exception | AssertionError | LinkageError e) {
      outcome = "FAILED: " + String.valueOf(e.getMessage()).replaceAll("\\s+", " ");
      failures.add(name + ": " + e);
      e.printStackTrace();
    }
    line("| " + String.join(" | ", cells) + " | " + outcome + " |");
  }

  void line(String text) {
    System.out.println(text);
    System.out.flush();
    page.append(text).append('\n');
  }

  List<String> failures() {
    return failures;
  }

  @Override
  public String toString() {
    return page.toString();
  }
}
