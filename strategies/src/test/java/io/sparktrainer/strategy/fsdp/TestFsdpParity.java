package io.sparktrainer.strategy.fsdp;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import io.sparktrainer.nn.Block;
import io.sparktrainer.strategy.FsdpOptions;
import io.sparktrainer.strategy.ShardingStrategy;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Every sharding strategy against one process on the concatenated batch, step by step. */
class TestFsdpParity {
  private static final double TOLERANCE = 2e-5;

  private static Block model() {
    return new Models.Stack(3);
  }

  static Stream<Arguments> strategies() {
    List<Arguments> all = new ArrayList<>();
    for (int ranks = 1; ranks <= 4; ranks++) {
      for (ShardingStrategy strategy : ShardingStrategy.values()) {
        if (strategy != ShardingStrategy.HYBRID_SHARD) {
          all.add(Arguments.of(ranks, FsdpOptions.builder().shardingStrategy(strategy).build()));
        }
      }
      for (int size = 1; size <= ranks; size++) {
        if (ranks % size == 0) {
          all.add(
              Arguments.of(
                  ranks,
                  FsdpOptions.builder()
                      .shardingStrategy(ShardingStrategy.HYBRID_SHARD)
                      .shardGroupSize(size)
                      .build()));
        }
      }
    }
    return all.stream();
  }

  @ParameterizedTest
  @MethodSource("strategies")
  void equalsOneProcessOnTheConcatenatedBatch(int ranks, FsdpOptions options) {
    Runs.Recipe recipe = Runs.Recipe.adamW(20).clipping(0.5);
    Runs.Outcome expected = Runs.alone(TestFsdpParity::model, ranks, recipe);
    List<Runs.Outcome> actual = Runs.sharded(ranks, TestFsdpParity::model, options, recipe);
    for (int i = 0; i < expected.losses().size(); i++) {
      int step = i;
      assertThat(actual.stream().mapToDouble(o -> o.losses().get(step)).average().orElseThrow())
          .as("loss of step %d", i)
          .isCloseTo(expected.losses().get(i), within(TOLERANCE));
    }
    for (Runs.Outcome outcome : actual) {
      assertThat(outcome.norms()).isEqualTo(actual.get(0).norms());
    }
    for (int i = 0; i < expected.norms().size(); i++) {
      assertThat(actual.get(0).norms().get(i))
          .isCloseTo(expected.norms().get(i), within(TOLERANCE));
    }
    Runs.assertClose(actual.get(0).state(), expected.state(), TOLERANCE);
  }
}
