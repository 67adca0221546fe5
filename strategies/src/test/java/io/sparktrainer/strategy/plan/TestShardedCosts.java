package io.sparktrainer.strategy.plan;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.optim.OptimizerSpec;
import io.sparktrainer.strategy.BackwardPrefetch;
import io.sparktrainer.strategy.FsdpOptions;
import io.sparktrainer.strategy.MixedPrecision;
import io.sparktrainer.strategy.Precision;
import io.sparktrainer.strategy.ShardingStrategy;
import io.sparktrainer.torch.DType;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Bytes per rank against the formulas of the FSDP and ZeRO papers. */
class TestShardedCosts {
  private static final OptimizerSpec ADAM = OptimizerSpec.adamW().build();
  private static final long UNIT = 1024;
  private static final long NUMEL = 8 * UNIT;
  private static final ModelOutline MODEL =
      Outlines.units(UNIT, UNIT, UNIT, UNIT, UNIT, UNIT, UNIT, UNIT);
  private static final StepOutline STEP = StepOutline.of(ADAM, Activations.UNKNOWN);

  private static Cost cost(
      ModelOutline model, int ranks, int group, FsdpOptions options, StepOutline step) {
    return new ShardedCosts(new ShardLayout(model.units(), ranks, group), options, step, 0).cost();
  }

  private static Cost cost(int ranks, int group, FsdpOptions options) {
    return cost(MODEL, ranks, group, options, STEP);
  }

  private static FsdpOptions sharding(ShardingStrategy strategy) {
    return FsdpOptions.builder().shardingStrategy(strategy).build();
  }

  /** What stays, without the one parameter's gradient that backward has just made. */
  private static long persistent(Cost cost, long newestGradient) {
    MemoryUse memory = cost.memory();
    return memory.parameters() + memory.gradients() - newestGradient + memory.optimizer();
  }

  @Test
  void fullShardHoldsANthAndFourUnitsMore() {
    Cost cost = cost(4, 4, FsdpOptions.defaults());

    assertThat(persistent(cost, 4 * UNIT)).isEqualTo(16 * NUMEL / 4);
    assertThat(cost.memory().copies()).isEqualTo((2 + 2) * 4 * UNIT);
    assertThat(cost.sentBytesPerStep()).isEqualTo(3 * 4 * NUMEL * 3 / 4);
  }

  @Test
  void shardGradOpKeepsAllParametersFromForwardToBackward() {
    Cost cost = cost(4, 4, sharding(ShardingStrategy.SHARD_GRAD_OP));

    assertThat(persistent(cost, 4 * UNIT)).isEqualTo(16 * NUMEL / 4);
    assertThat(cost.memory().copies()).isEqualTo(4 * NUMEL + 2 * 4 * UNIT);
    assertThat(cost.sentBytesPerStep()).isEqualTo(2 * 4 * NUMEL * 3 / 4);
  }

  @Test
  void noShardHoldsEverythingOnceAndSendsWhatDdpSends() {
    Cost cost = cost(4, 1, sharding(ShardingStrategy.NO_SHARD));

    assertThat(cost.memory().peak()).isEqualTo(16 * NUMEL + 4 * UNIT);
    assertThat(cost.sentBytesPerStep()).isEqualTo(2 * 4 * NUMEL * 3 / 4);
  }

  @Test
  void hybridShardsInTheGroupAndReducesAcrossGroups() {
    Cost cost = cost(8, 4, sharding(ShardingStrategy.HYBRID_SHARD));

    assertThat(persistent(cost, 4 * UNIT)).isEqualTo(16 * NUMEL / 4);
    // 3 P (S - 1) / S + 2 P / S (R - 1) / R
    assertThat(cost.sentBytesPerStep()).isEqualTo(3 * 4 * NUMEL * 3 / 4 + 4 * NUMEL / 4);
  }

  @Test
  void offloadedShardsAreOnTheHost() {
    FsdpOptions options = FsdpOptions.builder().cpuOffload(true).build();
    MemoryUse memory = cost(4, 4, options).memory();

    assertThat(memory.host()).isEqualTo(16 * NUMEL / 4);
    // Two units, two gradients, and two reduced pieces on their way to the host.
    long copies = 4 * 4 * UNIT + 2 * 4 * UNIT / 4;
    long newest = 4 * UNIT;
    assertThat(memory.peak()).isEqualTo(copies + newest);
    assertThat(memory.onHost().peak()).isEqualTo(16 * NUMEL / 4 + copies + newest);
    // A rank alone has nothing to reduce, so one gradient, and no piece of it.
    assertThat(cost(1, 1, options).memory().peak()).isEqualTo(3 * 4 * UNIT + newest);
  }

  @Test
  void bf16GathersHalfAndReducesAsTold() {
    MixedPrecision bf16 = new MixedPrecision(DType.BFLOAT16, DType.FLOAT32, null);
    Cost cost = cost(4, 4, FsdpOptions.builder().mixedPrecision(bf16).build());

    assertThat(persistent(cost, 2 * UNIT)).isEqualTo(16 * NUMEL / 4);
    assertThat(cost.memory().copies()).isEqualTo(2 * 2 * UNIT + 2 * 4 * UNIT);
    assertThat(cost.sentBytesPerStep()).isEqualTo((2 * 2 + 4) * NUMEL * 3 / 4);

    MixedPrecision reducedToo = new MixedPrecision(DType.BFLOAT16, null, null);
    Cost all = cost(4, 4, FsdpOptions.builder().mixedPrecision(reducedToo).build());
    assertThat(all.memory().copies()).isEqualTo(4 * 2 * UNIT + 2 * 2 * UNIT / 4);
    assertThat(all.sentBytesPerStep()).isEqualTo(3 * 2 * NUMEL * 3 / 4);

    // Alone, gradients are added up in the shard itself if that has their type.
    FsdpOptions alone = FsdpOptions.builder().mixedPrecision(bf16).build();
    assertThat(cost(1, 1, alone).memory().copies()).isEqualTo(2 * 2 * UNIT);
  }

  @Test
  void prefetchDecidesHowManyUnitsAreGathered() {
    FsdpOptions none = FsdpOptions.builder().backwardPrefetch(BackwardPrefetch.NONE).build();
    FsdpOptions unlimited = FsdpOptions.builder().limitAllGathers(false).build();

    assertThat(cost(4, 4, none).memory().copies()).isEqualTo((1 + 1) * 4 * UNIT);
    assertThat(cost(4, 4, unlimited).memory().copies()).isEqualTo(4 * NUMEL + 2 * 4 * UNIT);
  }

  @Test
  void unitsAroundOthersStayGathered() {
    ModelOutline model =
        new ModelOutline(
            List.of(
                new UnitOutline("", List.of(Outlines.parameter(4096))),
                new UnitOutline("h.0", List.of(Outlines.parameter(1024))),
                new UnitOutline("h.1", List.of(Outlines.parameter(2048))),
                new UnitOutline("h.10", List.of(Outlines.parameter(512)))),
            0);

    Cost cost = cost(model, 4, 4, FsdpOptions.defaults(), STEP);

    assertThat(cost.memory().copies()).isEqualTo(2 * 4 * (4096 + 1024 + 2048));
    // The outer unit is gathered once, the others twice, all gradients are reduced once.
    long inner = 1024 + 2048 + 512;
    assertThat(cost.sentBytesPerStep()).isEqualTo(4 * (2 * 4096 + 3 * inner) * 3 / 4);
  }

  @Test
  void accumulationKeepsWholeGradientsUnlessItAddsUpShards() {
    StepOutline twice = new StepOutline(ADAM, 2, Precision.NONE, Activations.UNKNOWN);
    Cost whole = cost(MODEL, 4, 4, FsdpOptions.defaults(), twice);
    Cost sharded = cost(MODEL, 4, 4, FsdpOptions.builder().accumulateSharded(true).build(), twice);

    assertThat(whole.memory().copies()).isEqualTo(2 * 4 * UNIT + 4 * NUMEL);
    assertThat(whole.sentBytesPerStep()).isEqualTo((2 * 2 + 1) * 4 * NUMEL * 3 / 4);
    assertThat(sharded.memory().copies()).isEqualTo(4 * 4 * UNIT + 2 * 4 * UNIT / 4);
    assertThat(sharded.sentBytesPerStep()).isEqualTo(2 * 3 * 4 * NUMEL * 3 / 4);
  }

  @Test
  void unitsArePaddedPerTypeAndTrainability() {
    ModelOutline odd =
        new ModelOutline(
            List.of(new UnitOutline("", List.of(Outlines.parameter(391), Outlines.frozen(5)))), 0);

    MemoryUse memory = cost(odd, 4, 4, FsdpOptions.defaults(), STEP).memory();

    assertThat(memory.parameters()).isEqualTo(4 * (98 + 2));
    assertThat(memory.gradients()).isEqualTo(4 * 98 + 4 * 391);
    assertThat(memory.optimizer()).isEqualTo(8 * 98);
    // One gather of both, one gradient of what is trained.
    assertThat(memory.copies()).isEqualTo(4 * (392 + 8) + 4 * 392);
  }

  @Test
  void zeroPaperExampleIsReproduced() {
    // 7.5 billion parameters, 16 bytes each, on 64 ranks: 120 GB whole, 1.9 GB sharded.
    ModelOutline model = Outlines.units(7_500_000_000L);

    assertThat(persistent(cost(model, 64, 64, FsdpOptions.defaults(), STEP), 4 * 7_500_000_000L))
        .isEqualTo(1_875_000_000L);
  }

  @Test
  void groupsThatDoNotDivideAreRefused() {
    assertThatThrownBy(() -> new ShardLayout(MODEL.units(), 8, 3))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage(
            "Cannot shard over 8 ranks: expected shard groups of a size that divides them, got 3 (2 x 3 = 6).");
    assertThatThrownBy(() -> new ShardLayout(List.of(), 8, 2))
        .hasMessage("Cannot shard a model: expected at least one unit.");
  }
}
