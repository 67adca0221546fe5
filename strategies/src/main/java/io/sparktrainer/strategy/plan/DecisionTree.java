package io.sparktrainer.strategy.plan;

import io.sparktrainer.strategy.plan.TreeFacts.Graph;
import java.util.ArrayList;
import java.util.List;

/**
 * The rule of thumb behind {@code auto}, as data:
 *
 * <pre>
 * under 1 billion parameters?
 *   yes: fits one device?
 *     yes: none
 *     no:  several hosts?
 *       yes: fsdp
 *       no:  static graph?
 *         yes: fsdp
 *         no:  ddp
 *   no: fsdp
 * </pre>
 */
final class DecisionTree {
  static final long LARGE_MODEL_PARAMETERS = 1_000_000_000L;

  /** What the tree ends in. */
  enum Answer {
    NONE,
    DDP,
    FSDP
  }

  /**
   * A question on the way.
   *
   * @param question what was asked
   * @param fact what is known about it, with figures
   * @param yes the answer
   */
  record Step(String question, String fact, boolean yes) {}

  /**
   * A walk through the tree.
   *
   * @param path questions in the order in which they were asked
   * @param answer where it ends
   */
  record Decision(List<Step> path, Answer answer) {
    Decision {
      path = List.copyOf(path);
    }
  }

  private DecisionTree() {}

  static Decision decide(TreeFacts facts) {
    List<Step> path = new ArrayList<>();
    return new Decision(path, walk(facts, path));
  }

  private static Answer walk(TreeFacts facts, List<Step> path) {
    if (!ask(
        path,
        "under 1 billion parameters?",
        Figures.count(facts.parameters()) + " parameters",
        facts.parameters() < LARGE_MODEL_PARAMETERS)) {
      return Answer.FSDP;
    }
    if (ask(
        path,
        "fits one device?",
        "%s needed, %s available"
            .formatted(Figures.bytes(facts.bytesOnOneDevice()), Figures.bytes(facts.deviceBytes())),
        facts.bytesOnOneDevice() <= facts.deviceBytes())) {
      return Answer.NONE;
    }
    if (ask(
        path,
        "several hosts?",
        "%d ranks on %d host%s"
            .formatted(facts.ranks(), facts.hosts(), facts.hosts() == 1 ? "" : "s"),
        facts.hosts() > 1)) {
      return Answer.FSDP;
    }
    return ask(
            path,
            "static graph?",
            facts.graph() == Graph.STATIC
                ? "ddp.static_graph is true"
                : "ddp.static_graph is false",
            facts.graph() == Graph.STATIC)
        ? Answer.FSDP
        : Answer.DDP;
  }

  private static boolean ask(List<Step> path, String question, String fact, boolean yes) {
    path.add(new Step(question, fact, yes));
    return yes;
  }
}
