package io.sparktrainer.strategy.fsdp;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import io.sparktrainer.comm.CollectiveCounts.Kind;
import io.sparktrainer.comm.LocalCommunicator;
import io.sparktrainer.comm.testing.RankThreads;
import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.CheckpointPolicy;
import io.sparktrainer.nn.Linear;
import io.sparktrainer.strategy.BackwardPrefetch;
import io.sparktrainer.strategy.ComputeOptions;
import io.sparktrainer.strategy.FsdpOptions;
import io.sparktrainer.strategy.GradientSync;
import io.sparktrainer.strategy.ShardingStrategy;
import io.sparktrainer.strategy.WrapPolicy;
import io.sparktrainer.testing.Values;
import io.sparktrainer.torch.NativeScope;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Test;

/** Unusual models, and options beside the sharding strategy, against one process. */
class TestFsdpModels {
  private static final double TOLERANCE = 2e-5;
  private static final Runs.Recipe RECIPE = Runs.Recipe.adamW(4).clipping(0.5);

  private static List<FsdpOptions> options() {
    return List.of(
        FsdpOptions.defaults(),
        FsdpOptions.builder()
            .backwardPrefetch(BackwardPrefetch.BACKWARD_POST)
            .forwardPrefetch(true)
            .build(),
        FsdpOptions.builder()
            .backwardPrefetch(BackwardPrefetch.NONE)
            .limitAllGathers(false)
            .forwardPrefetch(true)
            .build(),
        FsdpOptions.builder().limitAllGathers(false).forwardPrefetch(true).build(),
        FsdpOptions.builder().wrapPolicy(new WrapPolicy.WholeModel()).build(),
        FsdpOptions.builder().wrapPolicy(new WrapPolicy.MinParameters(40)).build(),
        FsdpOptions.builder().wrapPolicy(new WrapPolicy.ClassNames(Set.of("Linear"))).build(),
        FsdpOptions.builder().cpuOffload(true).build(),
        FsdpOptions.builder().shardingStrategy(ShardingStrategy.SHARD_GRAD_OP).build(),
        FsdpOptions.builder().shardingStrategy(ShardingStrategy.NO_SHARD).build());
  }

  private static void equalsAlone(
      int ranks, Supplier<Block> model, List<FsdpOptions> options, Runs.Recipe recipe) {
    Runs.Outcome expected = Runs.alone(model, ranks, recipe);
    for (List<Runs.Outcome> outcomes : Runs.sharded(ranks, model, options, recipe)) {
      Runs.Outcome actual = outcomes.get(0);
      Runs.assertClose(actual.state(), expected.state(), TOLERANCE);
      for (int i = 0; i < expected.norms().size(); i++) {
        assertThat(actual.norms().get(i)).isCloseTo(expected.norms().get(i), within(TOLERANCE));
      }
    }
  }

  @Test
  void aClosedStrategyRefusesToGoOn() {
    var strategy =
        new FsdpStrategy(new Models.Stack(1), new LocalCommunicator(), FsdpOptions.defaults());
    strategy.close();
    for (Runnable call : List.<Runnable>of(strategy::zeroGrad, strategy::joinPredict)) {
      assertThatThrownBy(call::run)
          .hasMessage(
              "Cannot go on training with fsdp: expected state ready, got closed (rank 0 of 1). Start a new training.");
    }
  }

  @Test
  void everyOptionTrainsAlike() {
    equalsAlone(2, () -> new Models.Stack(3), options(), RECIPE);
    equalsAlone(2, () -> new Models.Stack(3), options(), RECIPE.accumulating(3));
  }

  @Test
  void tiedWeightsAcrossUnitsTrainAlike() {
    equalsAlone(3, Shapes.TiedUnits::new, options(), RECIPE);
  }

  @Test
  void aTiedGptTrainsAlikeWhateverIsAUnit() {
    List<FsdpOptions> options =
        Stream.of(
                new WrapPolicy.MarkedBlocks(),
                new WrapPolicy.WholeModel(),
                new WrapPolicy.ClassNames(Set.of("Embedding")),
                new WrapPolicy.ClassNames(Set.of("Linear")),
                new WrapPolicy.ClassNames(Set.of("Embedding", "Linear", "Gpt")),
                new WrapPolicy.MinParameters(1),
                new WrapPolicy.MinParameters(24),
                new WrapPolicy.MinParameters(100))
            .map(policy -> FsdpOptions.builder().wrapPolicy(policy).build())
            .toList();
    equalsAlone(2, Shapes.TiedGpt::new, options, RECIPE);
  }

  @Test
  void oddParametersTrainAlike() {
    equalsAlone(3, Shapes.OddStack::new, options(), RECIPE.accumulating(2));
  }

  @Test
  void aUnitCalledTwiceAndOneNeverCalledTrainAlike() {
    equalsAlone(2, Shapes.CalledTwice::new, options(), RECIPE);
  }

  @Test
  void unitsInsideUnitsTrainAlike() {
    equalsAlone(2, Shapes.Nested::new, options(), RECIPE);
  }

  @Test
  void outputsThatShareMemoryTrainAlike() {
    equalsAlone(2, Shapes.Aliases::new, List.of(FsdpOptions.defaults()), RECIPE);
  }

  @Test
  void ranksMayUseDifferentUnits() {
    Runs.Choice<Shapes.Branching> choice =
        (model, step, rank) ->
            model.use((step + rank) % 2 == 0, (step + rank) % 3 != 0, step > 1 && rank == 1);
    Runs.Outcome expected = Runs.alone(Shapes.Branching::new, 3, RECIPE, choice);
    for (List<Runs.Outcome> outcomes :
        Runs.sharded(3, Shapes.Branching::new, options().subList(0, 3), RECIPE, choice)) {
      Runs.assertClose(outcomes.get(0).state(), expected.state(), TOLERANCE);
    }
  }

  @Test
  void checkpointedUnitsTrainAlikeWithoutMoreGathers() {
    Runs.Outcome expected = Runs.alone(() -> new Models.Stack(3), 2, RECIPE);
    ComputeOptions checkpointed =
        ComputeOptions.builder().activationCheckpointing(CheckpointPolicy.units()).build();
    List<Runs.Outcome> outcomes =
        RankThreads.collect(
            2,
            communicator -> {
              Block own = Models.seeded(communicator.rank(), () -> new Models.Stack(3));
              try (var strategy =
                  new FsdpStrategy(own, communicator, FsdpOptions.defaults(), checkpointed)) {
                Runs.Outcome outcome = Runs.train(strategy, communicator.rank(), 1, RECIPE);
                assertThat(gathers(strategy)).isEqualTo(7L * RECIPE.steps() + 4);
                return outcome;
              }
            });
    Runs.assertClose(outcomes.get(0).state(), expected.state(), TOLERANCE);
  }

  /** With those of the fingerprint, and of the state at the end. */
  private static long gathers(FsdpStrategy strategy) {
    return strategy.collectives().values().stream()
            .mapToLong(counts -> counts.calls(Kind.ALL_GATHER))
            .sum()
        - 2;
  }

  @Test
  void aUnitInsideACheckpointedBlockIsAnError() {
    ComputeOptions checkpointed =
        ComputeOptions.builder()
            .activationCheckpointing(CheckpointPolicy.named(Set.of("outer")))
            .build();
    RankThreads.runConnected(
        2,
        communicator -> {
          try (var strategy =
              new FsdpStrategy(
                  new Shapes.Nested(), communicator, FsdpOptions.defaults(), checkpointed)) {
            assertThatThrownBy(
                    () -> Runs.forwardBackward(strategy, 0, 0, 1, 1, GradientSync.REDUCE))
                .hasMessageContaining("Checkpoint units or parts of them");
          }
        });
  }

  @Test
  void accumulatingShardsTrainsAlike() {
    equalsAlone(
        3,
        Shapes.OddStack::new,
        List.of(FsdpOptions.builder().accumulateSharded(true).build()),
        RECIPE.accumulating(3));
  }

  @Test
  void predictsWhatOneProcessPredicts() {
    double[] expected;
    try (Block alone = Models.seeded(0, () -> new Models.Stack(3));
        var scope = NativeScope.open()) {
      alone.eval();
      expected = Values.of(alone.call(Runs.rows(1, 0, 1, Models.IN)));
    }
    RankThreads.runConnected(
        3,
        communicator -> {
          Block own = Models.seeded(communicator.rank(), () -> new Models.Stack(3));
          try (var strategy = new FsdpStrategy(own, communicator, FsdpOptions.defaults());
              var scope = NativeScope.open()) {
            strategy.model().eval();
            Tensor output = strategy.predict(Runs.rows(1, 0, 1, Models.IN));
            assertThat(Values.of(output)).containsExactly(expected, within(1e-6));
            assertThat(output.requires_grad()).isFalse();
          }
        });
  }

  @Test
  void parametersAreThisRanksShardsBetweenSteps() {
    RankThreads.runConnected(
        2,
        communicator -> {
          Block own = Models.seeded(0, () -> new Models.Stack(1));
          try (var strategy = new FsdpStrategy(own, communicator, FsdpOptions.defaults());
              var scope = NativeScope.open()) {
            Map<String, Tensor> parameters = strategy.model().parameters();
            long held = parameters.values().stream().mapToLong(Tensor::numel).sum();
            long whole = 35 + 7 + 98 + 14 + 98 + 7 + 21 + 3;
            assertThat(held).isLessThan(whole * 3 / 4);
            assertThat(strategy.trainable().keySet()).isEqualTo(parameters.keySet());
            strategy
                .shards()
                .forEach(
                    (name, shard) ->
                        assertThat(Values.of(shard.values()))
                            .isEqualTo(Values.of(strategy.trainable().get(name))));
          }
        });
  }

  @Test
  void callingABlockOutsideOfAPassIsAnError() {
    RankThreads.runConnected(
        1,
        communicator -> {
          Block own = new Models.Stack(1);
          try (var strategy = new FsdpStrategy(own, communicator, FsdpOptions.defaults());
              var scope = NativeScope.open()) {
            assertThatThrownBy(() -> own.call(Runs.rows(0, 0, 1, Models.IN)))
                .isInstanceOf(IllegalStateException.class)
                .hasMessage(
                    "Cannot call Stack (the model): expected to be in forwardBackward() or predict() of fsdp, where its parameters are gathered. Call those instead of the block.");
          }
        });
  }

  /** Uses a unit's weight after the unit was freed. */
  static final class Outside extends Block {
    private final Models.Residual block = child("block", new Models.Residual(Models.IN));
    private final Linear out = child("out", new Linear(Models.IN, Models.OUT));

    @Override
    protected Tensor forward(Tensor... inputs) {
      Tensor x = block.call(inputs[0]);
      Tensor weight = block.ownParameters().isEmpty() ? blockWeight() : x;
      return out.call(x.matmul(weight.t()).narrow(1, 0, Models.IN));
    }

    private Tensor blockWeight() {
      return ((Linear) block.blocks().get("fc1")).weight();
    }
  }

  @Test
  void usingAnotherUnitsParameterFailsNamingBoth() {
    RankThreads.runConnected(
        2,
        communicator -> {
          try (var strategy =
              new FsdpStrategy(new Outside(), communicator, FsdpOptions.defaults())) {
            assertThatThrownBy(
                    () -> Runs.forwardBackward(strategy, 0, 0, 1, 1, GradientSync.REDUCE))
                .isInstanceOf(IllegalStateException.class)
                .hasMessage(
                    "Cannot run the model of fsdp: it uses a parameter of unit \"block\" (block.fc1.weight, block.fc1.bias, block.fc2.weight, block.fc2.bias), which is there only while that unit runs. Register the parameter with tie() in the block that uses it, so that the unit around both owns it, or choose other units.");
            assertThatThrownBy(() -> strategy.clipGradNorm(1))
                .isInstanceOf(IllegalStateException.class)
                .hasMessageStartingWith(
                    "Cannot go on training with fsdp: expected state ready, got failed");
          }
        });
  }

  /** The input is too wide, which has nothing to do with units. */
  @Test
  void otherMistakesOfAModelStayWhatTheyAre() {
    RankThreads.runConnected(
        2,
        communicator -> {
          try (var strategy =
                  new FsdpStrategy(new Models.Stack(2), communicator, FsdpOptions.defaults());
              var scope = NativeScope.open()) {
            assertThatThrownBy(() -> strategy.predict(Runs.rows(0, 0, 1, Models.IN + 1)))
                .isExactlyInstanceOf(RuntimeException.class)
                .hasMessageContaining("shapes cannot be multiplied (4x6 and 5x7)");
          }
        });
  }
}
