package io.sparktrainer.strategy.plan;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;

/** A plan as text. */
final class PlanReport {
  private PlanReport() {}

  static String of(Plan plan) {
    StringBuilder text = new StringBuilder();
    text.append("Facts\n").append(table(facts(plan), 1)).append('\n');
    text.append("Decision\n").append(table(path(plan), 1)).append('\n');
    text.append("Per rank\n").append(table(costs(plan), 1)).append('\n');
    text.append("Chosen: ").append(chosen(plan)).append('\n');
    return text.toString();
  }

  private static List<List<String>> facts(Plan plan) {
    ModelOutline model = plan.model();
    UnitOutline largest =
        model.units().stream()
            .max(Comparator.comparingLong(UnitOutline::numel))
            .orElseThrow(() -> new IllegalStateException("A model has at least one unit."));
    Machines machines = plan.machines();
    return List.of(
        List.of(
            "model",
            "%s parameters (%s), %s trainable, buffers %s"
                .formatted(
                    Figures.count(model.numel()),
                    Figures.bytes(model.parameterBytes()),
                    Figures.bytes(model.trainableBytes()),
                    Figures.bytes(model.bufferBytes()))),
        List.of(
            "units",
            "%d, the largest %s parameters (%s)"
                .formatted(
                    model.units().size(),
                    Figures.count(largest.numel()),
                    largest.name().isEmpty() ? "outside blocks" : largest.name())),
        List.of(
            "machines",
            "%d rank%s on %d host%s, %s of %s memory for each"
                .formatted(
                    machines.ranks(),
                    machines.ranks() == 1 ? "" : "s",
                    machines.hosts(),
                    machines.hosts() == 1 ? "" : "s",
                    Figures.bytes(machines.deviceBytes()),
                    machines.type().name().toLowerCase(Locale.ROOT))),
        List.of(
            "step",
            "%s, %d micro-batch%s, large operations in %s"
                .formatted(
                    plan.step().optimizer().name(),
                    plan.step().accumulate(),
                    plan.step().accumulate() == 1 ? "" : "es",
                    plan.step().precision().dtype())),
        List.of(
            "activations",
            "%s (%s)"
                .formatted(
                    Figures.bytes(plan.step().activations().bytes()),
                    plan.step().activations().source())));
  }

  private static List<List<String>> path(Plan plan) {
    List<List<String>> lines = new ArrayList<>();
    for (DecisionTree.Step node : plan.decision().path()) {
      lines.add(List.of(node.question(), node.fact(), node.yes() ? "yes" : "no"));
    }
    lines.add(List.of("->", plan.decision().answer().name().toLowerCase(Locale.ROOT), ""));
    return lines;
  }

  private static List<List<String>> costs(Plan plan) {
    List<List<String>> lines = new ArrayList<>();
    lines.add(
        List.of(
            "strategy",
            "predicted peak",
            "fits",
            "sent per step",
            "parameters",
            "gradients",
            "optimizer",
            "buckets",
            "gathered",
            "activations",
            "on host"));
    for (PlanRow row : plan.rows()) {
      MemoryUse memory = row.cost().memory();
      lines.add(
          List.of(
              row.label(),
              Figures.bytes(memory.peak()),
              row.fits() ? "yes" : "no",
              Figures.bytes(row.cost().sentBytesPerStep()),
              Figures.bytes(memory.parameters()),
              Figures.bytes(memory.gradients()),
              Figures.bytes(memory.optimizer()),
              Figures.bytes(memory.buckets()),
              Figures.bytes(memory.copies()),
              Figures.bytes(memory.activations()),
              Figures.bytes(memory.host())));
    }
    return lines;
  }

  private static String chosen(Plan plan) {
    PlanRow choice = plan.choice();
    return (choice == null ? "nothing" : choice.label()) + " (" + plan.reason() + ")";
  }

  /** Columns padded to equal width, the first {@code leftAligned} to the left, figures right. */
  private static String table(List<List<String>> lines, int leftAligned) {
    int columns = lines.get(0).size();
    int[] widths = new int[columns];
    for (List<String> line : lines) {
      for (int i = 0; i < columns; i++) {
        widths[i] = Math.max(widths[i], line.get(i).length());
      }
    }
    StringBuilder text = new StringBuilder();
    for (List<String> line : lines) {
      StringBuilder cells = new StringBuilder();
      for (int i = 0; i < columns; i++) {
        boolean left = i < leftAligned || columns <= 3;
        cells.append("  ").append(padded(line.get(i), widths[i], left));
      }
      text.append(cells.toString().stripTrailing()).append('\n');
    }
    return text.toString();
  }

  private static String padded(String cell, int width, boolean left) {
    String gap = " ".repeat(width - cell.length());
    return left ? cell + gap : gap + cell;
  }
}
