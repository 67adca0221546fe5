package io.sparktrainer.strategy;

import static org.assertj.core.api.Assertions.assertThat;

import io.sparktrainer.comm.testing.RankProcesses;
import java.util.Map;
import org.junit.jupiter.api.Test;

/**
 * Every strategy frees the native objects of a step when the step ends, and those of a hook when
 * the hook returns.
 */
class ITNativeObjects {
  private static final int TIMEOUT_SECONDS = 120;

  @Test
  void stepsAndHooksLeaveNothingBehind() {
    // Few collections, because a count that one disturbs is taken again.
    try (RankProcesses processes =
        RankProcesses.start(
            1,
            TIMEOUT_SECONDS,
            Map.of("JAVA_TOOL_OPTIONS", "-Xms500m -Xmn450m -XX:MetaspaceSize=64m"),
            NativeObjects.class)) {
      RankProcesses.Result counted = processes.await(TIMEOUT_SECONDS).get(0);
      assertThat(counted.exitCode()).as(counted.output()).isZero();
      assertThat(counted.lines(NativeObjects.BETWEEN_STEPS))
          .hasSize(10)
          // One that stays in every step. A reduction that is late once may take one buffer more.
          .allMatch(line -> objects(line) < NativeObjects.STEPS);
      // A hook that kept its argument until the step ends would hold one gradient per layer.
      // Checkpointing holds less and less while backward runs.
      assertThat(counted.lines(NativeObjects.IN_BACKWARD))
          .hasSize(9)
          .allMatch(line -> objects(line) < NativeObjects.MORE_LAYERS);
    }
  }

  private static long objects(String line) {
    return Long.parseLong(line.substring(0, line.indexOf(' ')));
  }
}
