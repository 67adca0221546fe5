package io.sparktrainer.strategy.fsdp;

import static org.assertj.core.api.Assertions.assertThat;

import io.sparktrainer.comm.CollectiveCounts;
import io.sparktrainer.comm.testing.RankThreads;
import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.CheckpointPolicy;
import io.sparktrainer.nn.Linear;
import io.sparktrainer.nn.ShardUnit;
import io.sparktrainer.strategy.ComputeOptions;
import io.sparktrainer.strategy.FsdpOptions;
import io.sparktrainer.strategy.ShardingStrategy;
import java.util.List;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Checkpointed units: the checkpoint is inside the unit, so one gather serves both. */
class TestCheckpointedFsdp {
  private static final int RANKS = 2;
  private static final Runs.Recipe RECIPE = Runs.Recipe.adamW(5);

  @ParameterizedTest
  @EnumSource(names = {"FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD"})
  void equalsOneProcessWithTheCollectivesOfThePlainRun(ShardingStrategy sharding) {
    FsdpOptions options = FsdpOptions.builder().shardingStrategy(sharding).build();
    ComputeOptions checkpointed =
        ComputeOptions.builder().activationCheckpointing(CheckpointPolicy.units()).build();
    Runs.Outcome expected = Runs.alone(Net::new, RANKS, RECIPE);
    List<CollectiveCounts> plain = run(options, ComputeOptions.defaults(), expected);
    List<CollectiveCounts> actual = run(options, checkpointed, expected);
    assertThat(actual).isEqualTo(plain);
  }

  private static List<CollectiveCounts> run(
      FsdpOptions options, ComputeOptions compute, Runs.Outcome expected) {
    return RankThreads.collect(
        RANKS,
        communicator -> {
          Block own = Models.seeded(0, Net::new);
          try (var strategy = new FsdpStrategy(own, communicator, options, compute)) {
            Runs.Outcome outcome = Runs.train(strategy, communicator.rank(), 1, RECIPE);
            if (communicator.rank() == 0) {
              Runs.assertClose(outcome.state(), expected.state(), 1e-5);
            }
            return communicator.counts();
          }
        });
  }

  private static final class Layer extends Block implements ShardUnit {
    private final Linear linear = child("linear", new Linear(Models.IN, Models.IN));

    @Override
    protected Tensor forward(Tensor... inputs) {
      return inputs[0].add(torch.tanh(linear.call(inputs[0])));
    }
  }

  private static final class Net extends Block {
    private final Layer first = child("first", new Layer());
    private final Layer second = child("second", new Layer());
    private final Linear head = child("head", new Linear(Models.IN, Models.OUT));

    @Override
    protected Tensor forward(Tensor... inputs) {
      // The first unit is called twice in one forward pass.
      return head.call(second.call(first.call(first.call(inputs[0]))));
    }
  }
}
