package io.sparktrainer.strategy.plan;

import static java.util.stream.Collectors.joining;

import io.sparktrainer.strategy.StrategySpec;
import io.sparktrainer.strategy.plan.DecisionTree.Decision;
import java.util.List;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/** What the planner found out: the walk through the tree, every option's cost, and the choice. */
public final class Plan {
  private final ModelOutline model;
  private final StepOutline step;
  private final Machines machines;
  private final Decision decision;
  private final List<PlanRow> rows;
  private final List<PlanRow> candidates;

  Plan(
      ModelOutline model,
      StepOutline step,
      Machines machines,
      Decision decision,
      List<PlanRow> rows,
      List<PlanRow> candidates) {
    this.model = model;
    this.step = step;
    this.machines = machines;
    this.decision = decision;
    this.rows = List.copyOf(rows);
    this.candidates = List.copyOf(candidates);
  }

  ModelOutline model() {
    return model;
  }

  StepOutline step() {
    return step;
  }

  Machines machines() {
    return machines;
  }

  Decision decision() {
    return decision;
  }

  /** Every option that was looked at. */
  public List<PlanRow> rows() {
    return rows;
  }

  /** The tree's answer if it fits, else the next option that does; null if none does. */
  public @Nullable PlanRow choice() {
    return candidates.stream().filter(PlanRow::fits).findFirst().orElse(null);
  }

  /**
   * The strategy to train with.
   *
   * @throws IllegalArgumentException with every option's figures, if none fits
   */
  public StrategySpec resolve() {
    PlanRow choice = choice();
    if (choice != null) {
      return choice.spec();
    }
    throw new IllegalArgumentException(
        "Cannot resolve strategy auto: expected one that fits into %s per rank of %d, got %s. Use more ranks, a smaller batch or model, activation_checkpointing, or mixed_precision."
            .formatted(
                Figures.bytes(machines.deviceBytes()),
                machines.ranks(),
                rows.stream().map(Plan::needs).collect(joining("; "))));
  }

  /** In one sentence, why {@link #choice()} is what it is. */
  public String reason() {
    StringBuilder reason = new StringBuilder();
    reason.append(
        decision.path().stream()
            .map(
                node ->
                    "%s %s (%s)".formatted(node.question(), node.yes() ? "yes" : "no", node.fact()))
            .collect(joining(", ")));
    reason.append(": ").append(decision.answer().name().toLowerCase(Locale.ROOT));
    for (PlanRow candidate : candidates) {
      reason.append("; ").append(needs(candidate));
      if (candidate.fits()) {
        return reason.append(": chosen").toString();
      }
      reason.append(": does not fit");
    }
    return reason.append("; nothing fits").toString();
  }

  private static String needs(PlanRow row) {
    return "%s needs %s".formatted(row.label(), Figures.bytes(row.cost().memory().peak()));
  }

  /** The plan for people: path, facts and a table of all options. */
  @Override
  public String toString() {
    return PlanReport.of(this);
  }
}
