package io.sparktrainer.strategy.fsdp;

import static org.assertj.core.api.Assertions.assertThat;

import io.sparktrainer.comm.CollectiveCounts;
import io.sparktrainer.comm.CollectiveCounts.Kind;
import io.sparktrainer.comm.testing.RankThreads;
import io.sparktrainer.nn.Block;
import io.sparktrainer.strategy.BackwardPrefetch;
import io.sparktrainer.strategy.FsdpOptions;
import io.sparktrainer.strategy.GradientSync;
import io.sparktrainer.strategy.ShardingStrategy;
import io.sparktrainer.strategy.WrapPolicy;
import io.sparktrainer.torch.NativeScope;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Counts collectives of a step of a model with three units and the root. */
class TestFsdpCollectives {
  private static final int UNITS = 3;

  /** Calls in one step, after the first, in which the ranks also agree on an order. */
  private record Calls(long gathers, long scatters, long reductions) {}

  private static Calls step(int ranks, FsdpOptions options, int microBatches) {
    return RankThreads.collect(
            ranks,
            communicator -> {
              Block model = Models.seeded(0, () -> new Models.Stack(UNITS));
              try (var strategy = new FsdpStrategy(model, communicator, options)) {
                step(strategy, 0, microBatches);
                Map<String, CollectiveCounts> before = strategy.collectives();
                step(strategy, 1, microBatches);
                return since(before, strategy.collectives());
              }
            })
        .stream()
        .reduce(
            (a, b) -> {
              assertThat(a).isEqualTo(b);
              return a;
            })
        .orElseThrow();
  }

  private static void step(FsdpStrategy strategy, int step, int microBatches) {
    strategy.zeroGrad();
    for (int i = 0; i < microBatches; i++) {
      boolean last = i == microBatches - 1;
      Runs.forwardBackward(
          strategy,
          step,
          strategy.rank(),
          1,
          1,
          last ? GradientSync.REDUCE : GradientSync.ACCUMULATE);
    }
  }

  private static Calls since(
      Map<String, CollectiveCounts> before, Map<String, CollectiveCounts> after) {
    long[] calls = new long[3];
    after.forEach(
        (group, counts) -> {
          CollectiveCounts made = counts.since(before.get(group));
          calls[0] += made.calls(Kind.ALL_GATHER);
          calls[1] += made.calls(Kind.REDUCE_SCATTER);
          calls[2] += made.calls(Kind.ALL_REDUCE);
          assertThat(made.calls(Kind.BROADCAST)).isZero();
        });
    return new Calls(calls[0], calls[1], calls[2]);
  }

  private static FsdpOptions.Builder of(ShardingStrategy strategy) {
    return FsdpOptions.builder().shardingStrategy(strategy);
  }

  @ParameterizedTest
  @EnumSource(BackwardPrefetch.class)
  void fullShardGathersAUnitTwiceAndTheRootOnce(BackwardPrefetch prefetch) {
    FsdpOptions options =
        of(ShardingStrategy.FULL_SHARD).backwardPrefetch(prefetch).forwardPrefetch(true).build();
    // The all-reduce agrees on the parameters in use.
    assertThat(step(2, options, 1)).isEqualTo(new Calls(2 * UNITS + 1, UNITS + 1, 1));
  }

  @Test
  void unlimitedPrefetchDoesNotAddGathers() {
    FsdpOptions options =
        of(ShardingStrategy.FULL_SHARD).limitAllGathers(false).forwardPrefetch(true).build();
    assertThat(step(2, options, 1)).isEqualTo(new Calls(2 * UNITS + 1, UNITS + 1, 1));
  }

  @Test
  void fullShardAccumulatesWithoutReductions() {
    FsdpOptions options = of(ShardingStrategy.FULL_SHARD).build();
    assertThat(step(2, options, 3)).isEqualTo(new Calls(3 * (2 * UNITS + 1), UNITS + 1, 1));
  }

  @Test
  void accumulatingShardsReducesEveryMicroBatch() {
    FsdpOptions options = of(ShardingStrategy.FULL_SHARD).accumulateSharded(true).build();
    assertThat(step(2, options, 3)).isEqualTo(new Calls(3 * (2 * UNITS + 1), 3 * (UNITS + 1), 1));
  }

  @Test
  void shardGradOpGathersOnceEvenOverMicroBatches() {
    FsdpOptions options = of(ShardingStrategy.SHARD_GRAD_OP).build();
    assertThat(step(2, options, 1)).isEqualTo(new Calls(UNITS + 1, UNITS + 1, 1));
    assertThat(step(2, options, 3)).isEqualTo(new Calls(UNITS + 1, UNITS + 1, 1));
  }

  @Test
  void noShardOnlyReduces() {
    FsdpOptions options = of(ShardingStrategy.NO_SHARD).build();
    assertThat(step(2, options, 1)).isEqualTo(new Calls(0, 0, UNITS + 2));
    assertThat(step(2, options, 3)).isEqualTo(new Calls(0, 0, UNITS + 2));
  }

  @Test
  void hybridShardAlsoReducesOverReplicas() {
    FsdpOptions options = of(ShardingStrategy.HYBRID_SHARD).shardGroupSize(2).build();
    assertThat(step(4, options, 1)).isEqualTo(new Calls(2 * UNITS + 1, UNITS + 1, UNITS + 2));
  }

  @Test
  void theWholeModelAsOneUnitNeedsOneGather() {
    FsdpOptions options =
        of(ShardingStrategy.FULL_SHARD).wrapPolicy(new WrapPolicy.WholeModel()).build();
    assertThat(step(2, options, 1)).isEqualTo(new Calls(1, 1, 1));
  }

  @Test
  void oneRankNeedsNothing() {
    assertThat(step(1, FsdpOptions.defaults(), 1)).isEqualTo(new Calls(0, 0, 0));
  }

  @Test
  void predictingGathersEachUnitOnceAndSoDoesARankWithoutRows() {
    RankThreads.runConnected(
        2,
        communicator -> {
          Block model = Models.seeded(0, () -> new Models.Stack(UNITS));
          try (var strategy = new FsdpStrategy(model, communicator, FsdpOptions.defaults());
              var scope = NativeScope.open()) {
            strategy.model().eval();
            Map<String, CollectiveCounts> before = strategy.collectives();
            if (communicator.rank() == 0) {
              assertThat(strategy.predict(Runs.rows(0, 0, 1, Models.IN)).size(1))
                  .isEqualTo(Models.OUT);
            } else {
              strategy.joinPredict();
            }
            assertThat(since(before, strategy.collectives())).isEqualTo(new Calls(UNITS + 1, 0, 0));
          }
        });
  }

  @Test
  void clippingTakesOneReduction() {
    RankThreads.runConnected(
        2,
        communicator -> {
          Block model = Models.seeded(0, () -> new Models.Stack(UNITS));
          try (var strategy = new FsdpStrategy(model, communicator, FsdpOptions.defaults())) {
            step(strategy, 0, 1);
            Map<String, CollectiveCounts> before = strategy.collectives();
            strategy.clipGradNorm(1);
            strategy.clipGradValue(0.5);
            assertThat(since(before, strategy.collectives())).isEqualTo(new Calls(0, 0, 1));
          }
        });
  }
}
