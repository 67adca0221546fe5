package io.sparktrainer.strategy.fsdp;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import io.sparktrainer.comm.LocalCommunicator;
import io.sparktrainer.comm.testing.RankThreads;
import io.sparktrainer.nn.Block;
import io.sparktrainer.optim.Optimizer;
import io.sparktrainer.optim.OptimizerSpec;
import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.strategy.FsdpOptions;
import io.sparktrainer.strategy.GradientSync;
import io.sparktrainer.strategy.MixedPrecision;
import io.sparktrainer.strategy.ParameterShard;
import io.sparktrainer.strategy.ShardingStrategy;
import io.sparktrainer.strategy.WrapPolicy;
import io.sparktrainer.strategy.ddp.DdpStrategy;
import io.sparktrainer.strategy.single.SingleStrategy;
import io.sparktrainer.testing.Values;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.NativeScope;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** Public bug reports against other sharded trainers, as tests of the right behaviour. */
class TestFsdpReports {
  private static final double TOLERANCE = 2e-5;
  private static final Runs.Recipe RECIPE = Runs.Recipe.adamW(4);

  private static Block stack() {
    return new Models.Stack(2);
  }

  private static FsdpOptions of(ShardingStrategy strategy) {
    return FsdpOptions.builder().shardingStrategy(strategy).build();
  }

  private static FsdpOptions hybrid(int shardGroupSize) {
    return FsdpOptions.builder()
        .shardingStrategy(ShardingStrategy.HYBRID_SHARD)
        .shardGroupSize(shardGroupSize)
        .build();
  }

  /** PR 88955, 170862, torchtitan 766: NO_SHARD counted N times, or each rank its own norm. */
  @Test
  void report18ClipNormIsThatOfOneProcessOnEveryRank() {
    Runs.Recipe recipe = RECIPE.clipping(0.05);
    List<Double> expected = Runs.alone(TestFsdpReports::stack, 4, recipe).norms();
    List<FsdpOptions> options =
        List.of(
            of(ShardingStrategy.FULL_SHARD),
            of(ShardingStrategy.SHARD_GRAD_OP),
            of(ShardingStrategy.NO_SHARD),
            hybrid(2));
    for (List<Runs.Outcome> ranks : Runs.sharded(4, TestFsdpReports::stack, options, recipe)) {
      for (Runs.Outcome outcome : ranks) {
        for (int i = 0; i < expected.size(); i++) {
          assertThat(outcome.norms().get(i)).isCloseTo(expected.get(i), within(1e-6));
        }
      }
    }
  }

  /** 83052: a parameter shared by two units crashes. */
  @Test
  void report19AParameterOfTwoUnitsIsOwnedByTheUnitAroundBoth() {
    try (Block model = new Shapes.TiedUnits()) {
      List<UnitPlan> plans = UnitPlanner.plan(model, new WrapPolicy.MarkedBlocks());
      assertThat(plans.get(0).parameters()).containsKey("first.fc.weight");
      assertThat(plans.get(1).parameters()).containsOnlyKeys("first.fc.bias");
    }
  }

  /** 176076: tied weights and uneven shards: the last rank's rows never move. */
  @Test
  void report20AllRowsOfTiedWeightsMove() {
    double[] before;
    try (Block model = Models.seeded(0, Shapes.TiedUnits::new)) {
      before = Values.of(model.state().get("first.fc.weight"));
    }
    Runs.Outcome expected = Runs.alone(Shapes.TiedUnits::new, 4, RECIPE);
    Runs.Outcome actual =
        Runs.sharded(4, Shapes.TiedUnits::new, List.of(FsdpOptions.defaults()), RECIPE)
            .get(0)
            .get(0);
    Runs.assertClose(actual.state(), expected.state(), TOLERANCE);
    double[] after = actual.state().get("first.fc.weight");
    for (int i = 0; i < before.length; i++) {
      assertThat(after[i]).as("element %d", i).isNotEqualTo(before[i]);
    }
  }

  /** 91167, 104690, PR 104186: frozen and trainable parameters in one unit. */
  @Test
  void report21FrozenParametersCostNoGradientAndCanBeUnfrozen() {
    List<Map<String, double[]>> outcomes =
        Runs.sharded(
                2,
                Shapes.OddStack::new,
                List.of(FsdpOptions.defaults()),
                (model, strategy) -> {
                  assertThat(strategy.trainable()).doesNotContainKey("odd.frozen");
                  updateOnce(strategy, 0);
                  // The 7 frozen elements, padded to 8 on 2 ranks, have no gradient.
                  assertThat(strategy.memory().gradientBytes())
                      .isEqualTo(strategy.memory().parameterBytes() - 4 * 4);
                  model.odd.frozen().set_requires_grad(true);
                  assertThat(strategy.trainable()).containsKey("odd.frozen");
                  updateOnce(strategy, 1);
                  return Runs.state(strategy);
                })
            .get(0);
    Map<String, double[]> expected;
    Shapes.OddStack alone = Models.seeded(0, Shapes.OddStack::new);
    try (var strategy = new SingleStrategy(alone, new LocalCommunicator())) {
      for (int step = 0; step < 2; step++) {
        alone.odd.frozen().set_requires_grad(step == 1);
        try (Optimizer optimizer = RECIPE.optimizer().create(strategy.trainable())) {
          strategy.zeroGrad();
          Runs.forwardBackward(strategy, step, 0, 2, 1, GradientSync.REDUCE);
          optimizer.step(0.01);
        }
      }
      expected = Runs.state(strategy);
    }
    Runs.assertClose(outcomes.get(0), expected, TOLERANCE);
  }

  private static void updateOnce(FsdpStrategy strategy, int step) {
    try (Optimizer optimizer = RECIPE.optimizer().create(strategy.trainable())) {
      strategy.zeroGrad();
      Runs.forwardBackward(strategy, step, strategy.rank(), 1, 1, GradientSync.REDUCE);
      optimizer.step(0.01);
    }
  }

  /** huggingface/trl 1723, huggingface/accelerate 1620, 156784: mixed types in one unit. */
  @Test
  void report22EachTypeHasAFlatBufferOfItsOwn() {
    List<List<Integer>> kinds =
        Runs.sharded(
                2,
                Shapes.OddStack::new,
                List.of(FsdpOptions.defaults()),
                (model, strategy) -> {
                  updateOnce(strategy, 0);
                  return strategy.shards().values().stream()
                      .map(shard -> DType.of(shard.values()).bytes())
                      .toList();
                })
            .get(0)
            .stream()
            .toList();
    assertThat(kinds.get(0)).contains(4, 8).isEqualTo(kinds.get(1));
  }

  /** 73784, 98494, PR 100180: with offload, the newest gradient replaces the sum. */
  @Test
  void report23OffloadAccumulatesExactly() {
    Runs.Recipe recipe = RECIPE.accumulating(3);
    List<FsdpOptions> options =
        List.of(
            FsdpOptions.defaults(),
            FsdpOptions.builder().cpuOffload(true).build(),
            FsdpOptions.builder().cpuOffload(true).accumulateSharded(true).build());
    List<List<Runs.Outcome>> outcomes = Runs.sharded(2, TestFsdpReports::stack, options, recipe);
    Map<String, double[]> plain = outcomes.get(0).get(0).state();
    Runs.assertClose(outcomes.get(1).get(0).state(), plain, 0);
    Runs.assertClose(outcomes.get(2).get(0).state(), plain, TOLERANCE);
  }

  /** 154888, 140183: a shard group of one drops the reduction over hosts. */
  @Test
  void report24HybridIsDdpWithGroupsOfOneAndFullWithOneGroup() {
    List<List<Runs.Outcome>> outcomes =
        Runs.sharded(
            2,
            TestFsdpReports::stack,
            List.of(hybrid(1), hybrid(2), of(ShardingStrategy.FULL_SHARD)),
            RECIPE);
    Map<String, double[]> ddp =
        RankThreads.collect(
                2,
                communicator -> {
                  Block own = Models.seeded(communicator.rank(), TestFsdpReports::stack);
                  try (var strategy = new DdpStrategy(own, communicator, DdpOptions.defaults())) {
                    return Runs.train(strategy, communicator.rank(), 1, RECIPE).state();
                  }
                })
            .get(0);
    Runs.assertClose(outcomes.get(0).get(0).state(), ddp, 1e-6);
    Runs.assertClose(outcomes.get(1).get(0).state(), outcomes.get(2).get(0).state(), 0);
  }

  /** 158719, PR 170667: parameters used on some ranks only: sizes differ, hang or abort. */
  @Test
  void report25ParametersUsedBySomeRanksGetTheMeanAndThoseUsedByNoneStay() {
    Runs.Choice<Shapes.Branching> choice =
        (model, step, rank) -> model.use(rank == 0, rank == 1, false);
    Map<String, double[]> before;
    try (Block model = Models.seeded(0, Shapes.Branching::new)) {
      before = new LinkedHashMap<>();
      model.state().forEach((name, tensor) -> before.put(name, Values.of(tensor)));
    }
    Runs.Outcome expected = Runs.alone(Shapes.Branching::new, 2, RECIPE, choice);
    List<FsdpOptions> options = List.of(FsdpOptions.defaults(), of(ShardingStrategy.SHARD_GRAD_OP));
    for (List<Runs.Outcome> ranks :
        Runs.sharded(2, Shapes.Branching::new, options, RECIPE, choice)) {
      Map<String, double[]> state = ranks.get(0).state();
      Runs.assertClose(state, expected.state(), TOLERANCE);
      // Weight decay would have moved it.
      assertThat(state.get("block2.fc1.weight")).isEqualTo(before.get("block2.fc1.weight"));
      assertThat(state.get("block1.fc1.weight")).isNotEqualTo(before.get("block1.fc1.weight"));
    }
  }

  /** 162338: the mean of a reduce-scatter was silently the sum. */
  @Test
  void report26GradientsAreMeansOverTheRanks() {
    List<List<double[]>> gradients =
        Runs.sharded(
            2,
            TestFsdpReports::stack,
            List.of(of(ShardingStrategy.FULL_SHARD), of(ShardingStrategy.NO_SHARD), hybrid(1)),
            (model, strategy) -> {
              // Every rank has the same rows, so the mean is what each rank has.
              strategy.zeroGrad();
              Runs.forwardBackward(strategy, 0, 0, 1, 1, GradientSync.REDUCE);
              return gathered(strategy, "in.bias");
            });
    double[] expected;
    try (var strategy =
            new SingleStrategy(Models.seeded(0, TestFsdpReports::stack), new LocalCommunicator());
        var scope = NativeScope.open()) {
      Runs.forwardBackward(strategy, 0, 0, 1, 1, GradientSync.REDUCE);
      expected = Values.of(strategy.trainable().get("in.bias").grad());
    }
    for (List<double[]> ranks : gradients) {
      double[] whole = new double[expected.length];
      for (double[] part : ranks) {
        for (int i = 0; i < whole.length; i++) {
          whole[i] = Double.isNaN(part[i]) ? whole[i] : part[i];
        }
      }
      assertThat(whole).containsExactly(expected, within(1e-6));
    }
  }

  /** This rank's part of a gradient, NaN where other ranks have it. */
  private static double[] gathered(FsdpStrategy strategy, String name) {
    try (var scope = NativeScope.open()) {
      ParameterShard shard = strategy.shards().get(name);
      double[] whole =
          new double[shard.shape().stream().mapToInt(Long::intValue).reduce(1, (a, b) -> a * b)];
      Arrays.fill(whole, Double.NaN);
      double[] part = Values.of(strategy.trainable().get(name).grad());
      System.arraycopy(part, 0, whole, (int) shard.offset(), part.length);
      return whole;
    }
  }

  /** 155903: division differs between FULL and HYBRID. */
  @Test
  void report31FullAndHybridDivideAlikeInEveryType() {
    for (DType reduced : new DType[] {DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16}) {
      MixedPrecision types = new MixedPrecision(null, reduced, null);
      List<List<Runs.Outcome>> outcomes =
          Runs.sharded(
              4,
              TestFsdpReports::stack,
              List.of(
                  of(ShardingStrategy.FULL_SHARD).withMixedPrecision(types),
                  hybrid(2).withMixedPrecision(types),
                  of(ShardingStrategy.NO_SHARD).withMixedPrecision(types)),
              new Runs.Recipe(OptimizerSpec.sgd().lr(0.1).build(), 3, 1, null));
      double tolerance = reduced == DType.FLOAT32 ? 1e-6 : reduced == DType.FLOAT16 ? 1e-3 : 1e-2;
      for (List<Runs.Outcome> ranks : outcomes) {
        Runs.assertClose(ranks.get(0).state(), outcomes.get(0).get(0).state(), tolerance);
      }
    }
  }
}
