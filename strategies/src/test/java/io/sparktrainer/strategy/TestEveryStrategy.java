package io.sparktrainer.strategy;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import io.sparktrainer.comm.Communicator;
import io.sparktrainer.comm.LocalCommunicator;
import io.sparktrainer.comm.testing.RankThreads;
import io.sparktrainer.engine.Strategies;
import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.CheckpointPolicy;
import io.sparktrainer.nn.Losses;
import io.sparktrainer.nn.Mlp;
import io.sparktrainer.optim.Optimizer;
import io.sparktrainer.optim.OptimizerSpec;
import io.sparktrainer.testing.Values;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Rng;
import io.sparktrainer.torch.Tensors;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** What holds for all strategies alike. */
class TestEveryStrategy {
  private static final int STEPS = 20;
  private static final int ROWS = 4;
  private static final int IN = 7;
  private static final int CLASSES = 5;
  private static final double TOLERANCE = 2e-5;

  /**
   * What a training left.
   *
   * @param losses of this rank, per step
   * @param state whole, on rank 0
   */
  private record Outcome(List<Double> losses, Map<String, double[]> state) {}

  private static Stream<Arguments> worldsAndOptimizers() {
    return IntStream.rangeClosed(1, 4)
        .boxed()
        .flatMap(
            world ->
                Stream.of(
                        OptimizerSpec.sgd().lr(0.1).momentum(0.9).build(),
                        OptimizerSpec.adam().lr(0.01).build())
                    .map(optimizer -> Arguments.of(world, optimizer)));
  }

  @ParameterizedTest
  @MethodSource("worldsAndOptimizers")
  void equalsNoneOnTheConcatenatedBatch(int world, OptimizerSpec optimizer) {
    Outcome expected = alone(new StrategySpec.None(0), world, optimizer);
    assertEqual("dp", expected, List.of(alone(StrategySpec.Dp.onCpu(world), world, optimizer)));
    List<StrategySpec> specs = ofRanks(world);
    List<List<Outcome>> byRank =
        RankThreads.collect(
            world,
            communicator -> {
              List<Outcome> outcomes = new ArrayList<>();
              for (StrategySpec spec : specs) {
                Communicator group =
                    communicator.subGroup(spec.toString(), IntStream.range(0, world).toArray());
                Rng.seed(1);
                outcomes.add(train(spec, group, group.rank(), 1, optimizer));
              }
              return outcomes;
            });
    for (int i = 0; i < specs.size(); i++) {
      int index = i;
      assertEqual(
          specs.get(i).toString(),
          expected,
          byRank.stream().map(outcomes -> outcomes.get(index)).toList());
    }
  }

  private static Outcome alone(StrategySpec spec, int slices, OptimizerSpec optimizer) {
    Rng.seed(1);
    return train(spec, new LocalCommunicator(), 0, slices, optimizer);
  }

  /** ddp, and fsdp with every sharding strategy and group size. */
  private static List<StrategySpec> ofRanks(int world) {
    List<StrategySpec> specs = new ArrayList<>();
    specs.add(new StrategySpec.Ddp(world, DdpOptions.defaults()));
    for (ShardingStrategy sharding : ShardingStrategy.values()) {
      var options =
          FsdpOptions.builder()
              .shardingStrategy(sharding)
              .wrapPolicy(new WrapPolicy.ClassNames(Set.of("Linear")));
      if (sharding != ShardingStrategy.HYBRID_SHARD) {
        specs.add(new StrategySpec.Fsdp(world, options.build()));
        continue;
      }
      for (int size = 1; size <= world; size++) {
        if (world % size == 0) {
          specs.add(new StrategySpec.Fsdp(world, options.shardGroupSize(size).build()));
        }
      }
    }
    return specs;
  }

  /** On the rows of some of a world's ranks. */
  private static Outcome train(
      StrategySpec spec, Communicator group, int first, int slices, OptimizerSpec optimizerSpec) {
    List<Double> losses = new ArrayList<>();
    Map<String, double[]> state = new LinkedHashMap<>();
    try (var strategy =
            Strategies.create(spec, TestEveryStrategy::model, group, ComputeOptions.defaults());
        Optimizer optimizer = optimizerSpec.create(strategy.trainable());
        var scope = NativeScope.open()) {
      for (int step = 0; step < STEPS; step++) {
        strategy.zeroGrad();
        losses.add(
            strategy
                .forwardBackward(
                    new Tensor[] {rows(step, first, slices)},
                    labels(step, first, slices),
                    Losses.CROSS_ENTROPY,
                    1,
                    GradientSync.REDUCE)
                .item_double());
        optimizer.step(optimizer.baseLearningRate());
      }
      strategy.fullState().forEach((name, tensor) -> state.put(name, Values.of(tensor)));
    }
    return new Outcome(losses, state);
  }

  private static void assertEqual(String name, Outcome expected, List<Outcome> actual) {
    for (int i = 0; i < STEPS; i++) {
      int step = i;
      assertThat(actual.stream().mapToDouble(rank -> rank.losses().get(step)).average().orElse(0))
          .as("%s: loss of step %d", name, step)
          .isCloseTo(expected.losses().get(step), within(TOLERANCE));
    }
    expected
        .state()
        .forEach(
            (parameter, values) ->
                assertThat(actual.get(0).state().get(parameter))
                    .as("%s: %s", name, parameter)
                    .containsExactly(values, within(TOLERANCE)));
  }

  private static Block model() {
    Rng.seed(5);
    return new Mlp(IN, List.of(9, 6), CLASSES);
  }

  private static Tensor rows(int step, int first, int slices) {
    float[] values = new float[slices * ROWS * IN];
    for (int i = 0; i < values.length; i++) {
      values[i] = (float) Math.sin(3.7 * step + 0.61 * (first * ROWS * IN + i));
    }
    return Tensors.of(values, (long) slices * ROWS, IN);
  }

  private static Tensor labels(int step, int first, int slices) {
    long[] classes =
        LongStream.range((long) first * ROWS, (long) (first + slices) * ROWS)
            .map(row -> (row * row + step) % CLASSES)
            .toArray();
    return Tensors.of(classes, classes.length);
  }

  private static List<StrategySpec> oneRank() {
    return List.of(
        new StrategySpec.None(0),
        StrategySpec.Dp.onCpu(2),
        new StrategySpec.Ddp(1, DdpOptions.defaults()),
        new StrategySpec.Fsdp(1, FsdpOptions.defaults()));
  }

  @ParameterizedTest
  @MethodSource("oneRank")
  void aModelWithNothingToTrainIsRefused(StrategySpec spec) {
    assertThatThrownBy(
            () ->
                Strategies.create(
                    spec,
                    () -> {
                      Block model = model();
                      model.parameters().values().forEach(each -> each.set_requires_grad(false));
                      return model;
                    },
                    new LocalCommunicator()))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("Cannot train Mlp with " + spec.name())
        .hasMessageContaining("expected at least one parameter with requires_grad, got none")
        .hasMessageContaining("unfreeze what is to be trained");
  }

  @ParameterizedTest
  @MethodSource("oneRank")
  void aCheckpointPolicyThatChoosesNothingIsRefused(StrategySpec spec) {
    ComputeOptions compute =
        ComputeOptions.builder().activationCheckpointing(CheckpointPolicy.units()).build();
    assertThatThrownBy(
            () ->
                Strategies.create(spec, TestEveryStrategy::model, new LocalCommunicator(), compute))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("Cannot checkpoint activations of Mlp")
        .hasMessageContaining("set activation_checkpointing to none");
  }

  /** On every rank, and before a collective: no rank is left waiting. */
  @Test
  void aWrapPolicyThatMatchesNothingIsRefusedOnEveryRank() {
    for (WrapPolicy policy :
        List.of(
            new WrapPolicy.ClassNames(Set.of("GptBlock")), new WrapPolicy.MinParameters(1 << 20))) {
      StrategySpec spec =
          new StrategySpec.Fsdp(2, FsdpOptions.builder().wrapPolicy(policy).build());
      RankThreads.runConnected(
          2,
          communicator ->
              assertThatThrownBy(
                      () -> Strategies.create(spec, TestEveryStrategy::model, communicator))
                  .isInstanceOf(IllegalArgumentException.class)
                  .hasMessageContaining("Cannot wrap by "));
    }
  }
}
