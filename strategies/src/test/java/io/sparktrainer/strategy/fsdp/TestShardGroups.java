package io.sparktrainer.strategy.fsdp;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.comm.testing.RankThreads;
import io.sparktrainer.strategy.FsdpOptions;
import io.sparktrainer.strategy.ShardingStrategy;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

class TestShardGroups {
  private static FsdpOptions hybrid(@Nullable Integer size) {
    return FsdpOptions.builder()
        .shardingStrategy(ShardingStrategy.HYBRID_SHARD)
        .shardGroupSize(size)
        .build();
  }

  @Test
  void cutsInsideAGroupAndReplicatesAcross() {
    List<String> places =
        RankThreads.collect(
            4,
            communicator -> {
              try (ShardGroups groups = ShardGroups.divide(communicator, hybrid(2))) {
                // A group may only be closed once all ranks have joined it.
                communicator.barrier().await();
                return "%d/%d %d/%d"
                    .formatted(
                        groups.shardIndex(),
                        groups.shardCount(),
                        groups.replicas().rank(),
                        groups.replicaCount());
              }
            });
    assertThat(places).containsExactly("0/2 0/2", "1/2 0/2", "0/2 1/2", "1/2 1/2");
  }

  @Test
  void withoutASizeAGroupIsAHost() {
    List<Integer> sizes =
        RankThreads.collect(
            2,
            communicator -> {
              try (ShardGroups groups = ShardGroups.divide(communicator, hybrid(null))) {
                communicator.barrier().await();
                return groups.shardCount();
              }
            });
    assertThat(sizes).containsExactly(2, 2);
    assertThat(ShardGroups.byHost(List.of("a", "b", "a", "b")))
        .isDeepEqualTo(new int[][] {{0, 2}, {1, 3}});
  }

  @Test
  void hostsOfDifferentSizesAreAnError() {
    assertThatThrownBy(() -> ShardGroups.byHost(List.of("a", "a", "b")))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage(
            "Cannot use HYBRID_SHARD by host: expected the same number of ranks on every host, got {a=[0, 1], b=[2]}. Set fsdp.shard_group_size.");
  }

  @Test
  void aSizeThatDoesNotDivideTheWorldIsAnErrorOnEveryRank() {
    RankThreads.runConnected(
        3,
        communicator ->
            assertThatThrownBy(() -> ShardGroups.divide(communicator, hybrid(2)))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessage(
                    "Cannot use shard_group_size 2: expected a divisor of world size 3 (rank %d)."
                        .formatted(communicator.rank())));
  }
}
