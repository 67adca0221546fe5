package io.sparktrainer.strategy.ddp;

import static org.assertj.core.api.Assertions.assertThat;

import io.sparktrainer.comm.testing.RankProcesses;
import org.junit.jupiter.api.Test;

/** The same comparison as {@link TestReducerOracle}, every rank in a process of its own. */
class ITReducerOracle {
  @Test
  void equalsPyTorchsReducerBetweenProcesses() {
    assertThat(RankProcesses.run(2, 30, Rank.class))
        .allSatisfy(
            result -> {
              assertThat(result.exitCode()).as(result.output()).isZero();
              assertThat(result.lines("compared ")).containsExactly("4 steps");
            });
  }

  /** One rank. */
  static final class Rank {
    private Rank() {}

    public static void main(String[] arguments) {
      TestReducerOracle.compareTinyBuckets(RankProcesses.rendezvous(arguments));
      System.out.println("compared " + TestReducerOracle.STEPS + " steps");
    }
  }
}
