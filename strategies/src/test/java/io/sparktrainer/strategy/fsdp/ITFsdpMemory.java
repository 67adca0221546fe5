package io.sparktrainer.strategy.fsdp;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.withinPercentage;

import io.sparktrainer.comm.testing.RankProcesses;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Memory of a model of 268 MB, each rank in a process of its own: 16/N bytes per parameter with
 * AdamW in float32, and what gathers and whole gradients of single units take.
 */
@Tag("proof")
class ITFsdpMemory {
  private static final long UNIT = 4L * MemoryRank.WIDTH * MemoryRank.WIDTH;

  private static final int SECONDS = 240;

  private static List<RankProcesses.Result> run(int ranks) {
    try (RankProcesses processes = RankProcesses.start(ranks, SECONDS, MemoryRank.class)) {
      return processes.await(SECONDS);
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2})
  void holdsSixteenBytesPerParameterOverTheRanks(int ranks) {
    for (RankProcesses.Result result : run(ranks)) {
      assertThat(result.exitCode()).as(result.output()).isZero();
      long[] bytes =
          Arrays.stream(result.lines("bytes ").get(0).split(" "))
              .mapToLong(Long::parseLong)
              .toArray();
      long persistent = 16 * MemoryRank.PARAMETERS / ranks;
      // One rank needs neither gathers nor whole gradients beside its own. Several have two units
      // gathered at a time, one being computed and one ahead, and two whole gradients, one being
      // added up and one being reduced.
      long transients = ranks == 1 ? 0 : 4 * UNIT;
      assertThat(bytes[0]).as("ledger").isCloseTo(persistent, withinPercentage(1));
      assertThat(bytes[1]).as("transients").isLessThanOrEqualTo(transients);
      assertThat(bytes[2]).as("peak of transients").isLessThanOrEqualTo(bytes[1]);
      assertThat(bytes[3])
          .as("growth of the resident size")
          .isCloseTo(persistent + bytes[1], withinPercentage(10));
    }
  }
}
