package io.sparktrainer.strategy.fsdp;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import io.sparktrainer.nn.Block;
import io.sparktrainer.strategy.FsdpOptions;
import io.sparktrainer.strategy.ShardingStrategy;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Every sharding strategy against one process on the concatenated batch, step by step. */
class TestFsdpParity {
  private static final double TOLERANCE = 2e-5;

  private static Block model() {
    return new Models.Stack(3);
  }

  private static List<FsdpOptions> strategies(int ranks) {
    List<FsdpOptions> all = new ArrayList<>();
    for (ShardingStrategy strategy : ShardingStrategy.values()) {
      if (strategy != ShardingStrategy.HYBRID_SHARD) {
        all.add(FsdpOptions.builder().shardingStrategy(strategy).build());
      }
    }
    for (int size = 1; size <= ranks; size++) {
      if (ranks % size == 0) {
        all.add(
            FsdpOptions.builder()
                .shardingStrategy(ShardingStrategy.HYBRID_SHARD)
                .shardGroupSize(size)
                .build());
      }
    }
    return all;
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3, 4})
  void equalsOneProcessOnTheConcatenatedBatch(int ranks) {
    Runs.Recipe recipe = Runs.Recipe.adamW(20).clipping(0.5);
    Runs.Outcome expected = Runs.alone(TestFsdpParity::model, ranks, recipe);
    List<FsdpOptions> options = strategies(ranks);
    List<List<Runs.Outcome>> outcomes = Runs.sharded(ranks, TestFsdpParity::model, options, recipe);
    for (int i = 0; i < options.size(); i++) {
      requireEqual(options.get(i), outcomes.get(i), expected);
    }
  }

  private static void requireEqual(
      FsdpOptions options, List<Runs.Outcome> actual, Runs.Outcome expected) {
    for (int i = 0; i < expected.losses().size(); i++) {
      int step = i;
      assertThat(actual.stream().mapToDouble(o -> o.losses().get(step)).average().orElseThrow())
          .as("%s: loss of step %d", options, i)
          .isCloseTo(expected.losses().get(i), within(TOLERANCE));
    }
    for (Runs.Outcome outcome : actual) {
      assertThat(outcome.norms()).as("%s", options).isEqualTo(actual.get(0).norms());
    }
    for (int i = 0; i < expected.norms().size(); i++) {
      assertThat(actual.get(0).norms().get(i))
          .as("%s: norm of step %d", options, i)
          .isCloseTo(expected.norms().get(i), within(TOLERANCE));
    }
    Runs.assertClose(actual.get(0).state(), expected.state(), TOLERANCE);
  }
}
