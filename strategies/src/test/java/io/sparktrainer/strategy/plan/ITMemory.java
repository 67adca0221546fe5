package io.sparktrainer.strategy.plan;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.withinPercentage;

import io.sparktrainer.comm.testing.RankProcesses;
import io.sparktrainer.optim.OptimizerSpec;
import io.sparktrainer.strategy.WrapPolicy;
import io.sparktrainer.testing.ProcessGrowth;
import io.sparktrainer.torch.Device;
import java.util.List;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Predictions against what child JVMs really hold, for a model of 218 MB. */
@EnabledOnOs(OS.LINUX)
@Tag("proof")
class ITMemory {
  // Some seconds on an idle machine.
  private static final int TIMEOUT_SECONDS = 300;
  private static final double TOLERANCE_PERCENT = 10;

  @ParameterizedTest
  @CsvSource({
    "none, 1, 16",
    "ddp, 2, 20",
    "ddp-view, 2, 16",
    "FULL_SHARD, 2, 8",
    "SHARD_GRAD_OP, 2, 8"
  })
  void ranksHoldWhatIsPredicted(String strategy, int ranks, int bytesPerParameter) {
    ModelOutline model =
        ModelOutline.of(() -> MemoryRank.model(MemoryRank.LAYERS), new WrapPolicy.MarkedBlocks());
    Machines machines = new Machines(Device.Type.CPU, Long.MAX_VALUE, 1, ranks);
    StepOutline step = StepOutline.of(OptimizerSpec.adamW().build(), Activations.UNKNOWN);
    MemoryUse predicted =
        new Planner(model, step, machines).cost(MemoryRank.spec(strategy, ranks)).memory();
    // Memory in which fsdp gathers is kept from step to step.
    long expected = bytesPerParameter * model.numel() + predicted.copies();

    for (RankProcesses.Result rank : run(strategy, ranks)) {
      assertThat(rank.exitCode()).as(rank.output()).isZero();
      long held = only(rank.lines("held "));
      long peak = only(rank.lines("peak "));
      System.out.printf(
          "%s rank %d of %d: predicted peak %.1f, measured %.1f, held %.1f MB, %.2f and %.2f bytes per parameter%n",
          strategy,
          rank.rank(),
          ranks,
          predicted.peak() / 1e6,
          peak / 1e6,
          held / 1e6,
          (double) peak / model.numel(),
          (double) held / model.numel());
      assertThat(peak)
          .as(strategy)
          .isCloseTo(predicted.peak(), withinPercentage(TOLERANCE_PERCENT));
      assertThat(held).as(strategy).isCloseTo(expected, withinPercentage(TOLERANCE_PERCENT));
    }
  }

  private static List<RankProcesses.Result> run(String strategy, int ranks) {
    try (var processes =
        RankProcesses.start(
            ranks, TIMEOUT_SECONDS, ProcessGrowth.ENVIRONMENT, MemoryRank.class, strategy)) {
      return processes.await(TIMEOUT_SECONDS);
    }
  }

  private static long only(List<String> lines) {
    assertThat(lines).hasSize(1);
    return Long.parseLong(lines.get(0));
  }
}
