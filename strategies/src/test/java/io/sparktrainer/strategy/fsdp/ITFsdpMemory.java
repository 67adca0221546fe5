package io.sparktrainer.strategy.fsdp;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.withinPercentage;

import io.sparktrainer.comm.testing.RankProcesses;
import io.sparktrainer.optim.OptimizerSpec;
import io.sparktrainer.strategy.FsdpOptions;
import io.sparktrainer.strategy.StrategySpec;
import io.sparktrainer.strategy.plan.Activations;
import io.sparktrainer.strategy.plan.Machines;
import io.sparktrainer.strategy.plan.MemoryUse;
import io.sparktrainer.strategy.plan.ModelOutline;
import io.sparktrainer.strategy.plan.Planner;
import io.sparktrainer.strategy.plan.StepOutline;
import io.sparktrainer.testing.ProcessGrowth;
import io.sparktrainer.torch.Device;
import java.util.List;
import java.util.Locale;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Memory of a model of 268 MB, each rank in a process of its own, with the shards beside the model
 * and in a home of their own as under {@code cpu_offload}. Both are memory of one processor here;
 * what is on the host is counted by the resident pages of the tensors there, and what is on the
 * device is the rest of what the process has grown by.
 */
@Tag("proof")
class ITFsdpMemory {
  private static final long UNIT = 4L * MemoryRank.WIDTH * MemoryRank.WIDTH;
  private static final int SECONDS = 240;

  private static List<MemoryRank.Report> run(int ranks, ShardHome home) {
    try (RankProcesses processes =
        RankProcesses.start(
            ranks, SECONDS, ProcessGrowth.ENVIRONMENT, MemoryRank.class, home.name())) {
      return processes.await(SECONDS).stream()
          .peek(result -> assertThat(result.exitCode()).as(result.output()).isZero())
          .map(MemoryRank.Report::parse)
          .toList();
    }
  }

  private static MemoryUse planned(int ranks, ShardHome home) {
    FsdpOptions options = FsdpOptions.builder().cpuOffload(home == ShardHome.HOST).build();
    return new Planner(
            ModelOutline.of(
                () -> MemoryRank.model(MemoryRank.LAYERS, MemoryRank.WIDTH), options.wrapPolicy()),
            StepOutline.of(OptimizerSpec.adamW().build(), Activations.UNKNOWN),
            new Machines(Device.Type.CUDA, Long.MAX_VALUE, 1, ranks))
        .cost(new StrategySpec.Fsdp(ranks, options))
        .memory();
  }

  private static String perParameter(long bytes) {
    return String.format(Locale.ROOT, "%.2f", (double) bytes / MemoryRank.PARAMETERS);
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2})
  void holdsWhatIsPlannedOnEachSide(int ranks) {
    MemoryUse plannedWithout = planned(ranks, ShardHome.DEVICE);
    MemoryUse plannedWith = planned(ranks, ShardHome.HOST);
    List<MemoryRank.Report> without = run(ranks, ShardHome.DEVICE);
    List<MemoryRank.Report> with = run(ranks, ShardHome.HOST);
    for (int rank = 0; rank < ranks; rank++) {
      MemoryRank.Report plain = without.get(rank);
      MemoryRank.Report offloaded = with.get(rank);
      System.out.printf(
          "rank %d of %d, cpu_offload: device %s bytes per parameter held, peak %s, host %s (planned: peak %s, host %s); without: device %s held, peak %s (planned %s)%n",
          rank,
          ranks,
          perParameter(offloaded.heldOnDevice()),
          perParameter(offloaded.peakOnDevice()),
          perParameter(offloaded.host()),
          perParameter(plannedWith.peak()),
          perParameter(plannedWith.host()),
          perParameter(plain.heldOnDevice()),
          perParameter(plain.peakOnDevice()),
          perParameter(plannedWithout.peak()));
      requirePlanned(plain, plannedWithout, ranks);
      requirePlanned(offloaded, plannedWith, ranks);
      assertThat(offloaded.loss()).isEqualTo(plain.loss());
    }
  }

  private static void requirePlanned(MemoryRank.Report got, MemoryUse planned, int ranks) {
    long held = planned.peak() - UNIT; // A parameter's gradient is gone once it is added.
    assertThat(got.ledger())
        .as("ledger")
        .isCloseTo(held - planned.copies() + planned.host(), withinPercentage(1));
    assertThat(got.transients()).as("transients").isLessThanOrEqualTo(planned.copies());
    assertThat(got.host()).as("host").isCloseTo(planned.host(), withinPercentage(1));
    assertThat(got.heldOnDevice()).as("held").isCloseTo(held, withinPercentage(10));
    // Gloo gathers into a copy; NCCL, on a device, does not.
    long gloo = ranks == 1 ? 0 : UNIT;
    assertThat(got.peakOnDevice())
        .as("peak")
        .isCloseTo(planned.peak() + gloo, withinPercentage(10));
  }
}
