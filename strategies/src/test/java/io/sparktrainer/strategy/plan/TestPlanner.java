package io.sparktrainer.strategy.plan;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.tuple;

import io.sparktrainer.optim.OptimizerSpec;
import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.strategy.FsdpOptions;
import io.sparktrainer.strategy.ShardingStrategy;
import io.sparktrainer.strategy.StrategySpec;
import io.sparktrainer.torch.Device;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;

class TestPlanner {
  private static final long MIB = 1L << 20;
  private static final StepOutline ADAM =
      StepOutline.of(OptimizerSpec.adamW().build(), Activations.UNKNOWN);
  // 64 units of 1 Mi parameters: 1 GiB to train on one device with Adam.
  private static final ModelOutline SMALL = model(64, MIB);

  private static ModelOutline model(int units, long numel) {
    long[] numels = new long[units];
    Arrays.fill(numels, numel);
    return Outlines.units(numels);
  }

  private static StrategySpec.Auto auto(int workers) {
    return new StrategySpec.Auto(workers, DdpOptions.defaults(), FsdpOptions.defaults());
  }

  private static Plan plan(ModelOutline model, long deviceMib, int hosts, int ranks) {
    return new Planner(model, ADAM, new Machines(Device.Type.CUDA, deviceMib * MIB, hosts, ranks))
        .plan(auto(ranks));
  }

  @Test
  void smallModelThatFitsTrainsOnOneDevice() {
    Plan plan = plan(SMALL, 1024, 1, 4);

    assertThat(plan.resolve()).isEqualTo(new StrategySpec.None(0));
    assertThat(plan.reason())
        .isEqualTo(
            "under 1 billion parameters? yes (67.11 million parameters), fits one device? yes (1.00 GiB needed, 1.00 GiB available): none; none needs 1.00 GiB: chosen");
  }

  @Test
  void whatTheTreeAnswersIsPassedOverWhereItDoesNotFit() {
    Plan plan = plan(SMALL, 1023, 1, 4);

    assertThat(plan.decision().answer()).isEqualTo(DecisionTree.Answer.DDP);
    assertThat(plan.resolve())
        .isEqualTo(
            new StrategySpec.Fsdp(
                4, FsdpOptions.builder().shardingStrategy(ShardingStrategy.SHARD_GRAD_OP).build()));
    assertThat(plan.reason())
        .endsWith(
            "static graph? no (ddp.static_graph is false): ddp; ddp needs 1.25 GiB: does not fit; ddp, gradient_as_bucket_view needs 1.01 GiB: does not fit; fsdp, SHARD_GRAD_OP needs 524.00 MiB: chosen");
  }

  @Test
  void lessMemoryTakesWhatNeedsLess() {
    assertThat(plan(SMALL, 300, 1, 4).resolve())
        .isEqualTo(new StrategySpec.Fsdp(4, FsdpOptions.defaults()));
  }

  @Test
  void offloadingIsTheLastResortOnGpus() {
    Machines gpus = new Machines(Device.Type.CUDA, 100 * MIB, 1, 4);

    StrategySpec resolved = new Planner(SMALL, ADAM, gpus).plan(auto(4)).resolve();

    assertThat(resolved)
        .isEqualTo(new StrategySpec.Fsdp(4, FsdpOptions.builder().cpuOffload(true).build()));
  }

  @Test
  void severalHostsShard() {
    assertThat(plan(SMALL, 1000, 2, 4).resolve())
        .isEqualTo(new StrategySpec.Fsdp(4, FsdpOptions.defaults()));
  }

  @Test
  void nothingFitsIsAnErrorWithFigures() {
    Plan plan = plan(SMALL, 10, 1, 2);

    assertThat(plan.choice()).isNull();
    assertThat(plan.reason()).endsWith("; nothing fits");
    assertThatThrownBy(plan::resolve)
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage(
            "Cannot resolve strategy auto: expected one that fits into 10.00 MiB per rank of 2, got none needs 1.00 GiB; dp, 2 replicas needs 1.00 GiB; ddp needs 1.25 GiB; ddp, gradient_as_bucket_view needs 1.01 GiB; fsdp, SHARD_GRAD_OP needs 780.00 MiB; fsdp, FULL_SHARD needs 532.00 MiB; fsdp, FULL_SHARD, cpu_offload needs 24.00 MiB. Use more ranks, a smaller batch or model, activation_checkpointing, or mixed_precision.");
  }

  @Test
  void configuredShardingComesFirst() {
    var fsdp = FsdpOptions.builder().shardingStrategy(ShardingStrategy.NO_SHARD).build();
    var auto = new StrategySpec.Auto(4, DdpOptions.defaults(), fsdp);
    Machines machines = new Machines(Device.Type.CPU, 1 << 30, 1, 4);

    Plan large = new Planner(model(1000, MIB), ADAM, machines).plan(auto);

    assertThat(large.reason())
        .contains("fsdp, NO_SHARD needs 15.63 GiB: does not fit; fsdp, SHARD_GRAD_OP");
    assertThat(large.choice()).isNull();
  }

  @Test
  void hybridShardsByHostUnlessToldOtherwise() {
    Machines machines = new Machines(Device.Type.CPU, MIB, 2, 8);
    Planner planner = new Planner(SMALL, ADAM, machines);
    var byHost = FsdpOptions.builder().shardingStrategy(ShardingStrategy.HYBRID_SHARD).build();
    var byTwo =
        FsdpOptions.builder()
            .shardingStrategy(ShardingStrategy.HYBRID_SHARD)
            .shardGroupSize(2)
            .build();

    assertThat(planner.cost(new StrategySpec.Fsdp(8, byHost)).memory().optimizer())
        .isEqualTo(512 * MIB / 4);
    assertThat(planner.cost(new StrategySpec.Fsdp(8, byTwo)).memory().optimizer())
        .isEqualTo(512 * MIB / 2);
  }

  @Test
  void aloneOnTheCpuARankHasTheWholeHost() {
    Machines shared = new Machines(Device.Type.CPU, 256 * MIB, 1, 4);

    Plan plan = new Planner(SMALL, ADAM, shared).plan(auto(4));

    assertThat(plan.resolve()).isEqualTo(new StrategySpec.None(0));
    assertThat(plan.rows())
        .extracting(PlanRow::label, PlanRow::fits)
        .containsExactly(
            tuple("none", true),
            tuple("dp, 4 replicas", false),
            tuple("ddp", false),
            tuple("ddp, gradient_as_bucket_view", false),
            tuple("fsdp, SHARD_GRAD_OP", false),
            tuple("fsdp, FULL_SHARD", false));
  }

  @Test
  void badQuestionsAreRefused() {
    Planner planner = new Planner(SMALL, ADAM, new Machines(Device.Type.CPU, 1, 1, 2));

    assertThatThrownBy(() -> planner.plan(auto(3)))
        .hasMessage("Cannot plan 3 workers: expected the 2 ranks of the machines.");
    assertThatThrownBy(() -> planner.cost(auto(2)))
        .hasMessage("Cannot predict the cost of auto: expected none, dp, ddp or fsdp.");
    assertThatThrownBy(() -> new Machines(Device.Type.CPU, 1, 2, 3))
        .hasMessage(
            "Cannot plan: expected at least one rank on each host and equally many, got 3 ranks on 2 hosts.");
  }

  @Test
  void reportShowsPathAndAlignedTable() {
    String report = plan(SMALL, 1023, 1, 4).toString();

    assertThat(report.lines())
        .contains(
            "  under 1 billion parameters?  67.11 million parameters                yes",
            "  fits one device?             1.00 GiB needed, 1023.00 MiB available  no",
            "  ->                           ddp");
    List<String> table =
        report
            .lines()
            .filter(line -> line.contains("  fits  ") || line.matches("  (none|dp|ddp|fsdp).*"))
            .toList();
    assertThat(table).hasSize(8);
    int end = table.get(0).indexOf("predicted peak") + "predicted peak".length();
    assertThat(table.subList(1, 8))
        .extracting(line -> line.substring(0, end).replaceAll("  +", "|"))
        .containsExactly(
            "|none|1.00 GiB",
            "|dp, 4 replicas|1.00 GiB",
            "|ddp|1.25 GiB",
            "|ddp, gradient_as_bucket_view|1.01 GiB",
            "|fsdp, SHARD_GRAD_OP|524.00 MiB",
            "|fsdp, FULL_SHARD|276.00 MiB",
            "|fsdp, FULL_SHARD, cpu_offload|22.00 MiB");
    assertThat(report).contains("Chosen: fsdp, SHARD_GRAD_OP (under 1 billion parameters? yes");
  }
}
