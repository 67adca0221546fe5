package io.sparktrainer.strategy.plan;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.strategy.plan.DecisionTree.Answer;
import io.sparktrainer.strategy.plan.DecisionTree.Step;
import io.sparktrainer.strategy.plan.TreeFacts.Graph;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class TestDecisionTree {
  private static final long GIB = 1L << 30;

  @ParameterizedTest
  @CsvSource({
    // parameters, GiB needed, GiB there, hosts, ranks, graph, answer
    "999999999,  16, 16, 1, 4, DYNAMIC, NONE",
    "999999999,  16, 16, 4, 4, STATIC,  NONE",
    "999999999,  17, 16, 2, 4, DYNAMIC, FSDP",
    "999999999,  17, 16, 2, 4, STATIC,  FSDP",
    "999999999,  17, 16, 1, 4, DYNAMIC, DDP",
    "999999999,  17, 16, 1, 4, STATIC,  FSDP",
    "1000000000, 1,  16, 1, 1, DYNAMIC, FSDP",
    "1000000000, 99, 16, 4, 4, STATIC,  FSDP",
  })
  void everyLeaf(
      long parameters, long need, long have, int hosts, int ranks, Graph graph, Answer answer) {
    var facts = new TreeFacts(parameters, need * GIB, have * GIB, hosts, ranks, graph);

    assertThat(DecisionTree.decide(facts).answer()).isEqualTo(answer);
  }

  @Test
  void pathHoldsTheFactsAtEachNode() {
    var facts = new TreeFacts(350_000_000, 17 * GIB, 16 * GIB, 1, 4, Graph.DYNAMIC);

    assertThat(DecisionTree.decide(facts).path())
        .containsExactly(
            new Step("under 1 billion parameters?", "350.00 million parameters", true),
            new Step("fits one device?", "17.00 GiB needed, 16.00 GiB available", false),
            new Step("several hosts?", "4 ranks on 1 host", false),
            new Step("static graph?", "ddp.static_graph is false", false));
  }

  @Test
  void impossibleFactsAreRefused() {
    assertThatThrownBy(() -> new TreeFacts(1, 1, 1, 3, 2, Graph.STATIC))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage(
            "Cannot choose a strategy: expected at least 1 host and at least one rank on each, got 3 hosts and 2 ranks.");
    assertThatThrownBy(() -> new TreeFacts(0, 1, 1, 1, 1, Graph.STATIC))
        .hasMessage(
            "Cannot choose a strategy: expected at least 1 parameter and 1 byte, got 0 parameters, 1 bytes needed and 1 bytes of device memory.");
  }
}
