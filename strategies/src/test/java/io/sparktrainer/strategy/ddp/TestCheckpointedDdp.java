package io.sparktrainer.strategy.ddp;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.comm.CollectiveCounts.Kind;
import io.sparktrainer.comm.LocalCommunicator;
import io.sparktrainer.comm.testing.RankThreads;
import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.CheckpointPolicy;
import io.sparktrainer.nn.Init;
import io.sparktrainer.nn.Linear;
import io.sparktrainer.nn.Losses;
import io.sparktrainer.strategy.ComputeOptions;
import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.strategy.GradientSync;
import io.sparktrainer.strategy.ParallelStrategy;
import io.sparktrainer.strategy.single.SingleStrategy;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Rng;
import io.sparktrainer.torch.Tensors;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.bytedeco.pytorch.BoolOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorArrayRefOptional;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;

/** Activation checkpointing under DDP, where PyTorch's reentrant one loses gradients silently. */
class TestCheckpointedDdp {
  private static final int RANKS = 2;
  private static final int ROWS = 4;
  private static final int STEPS = 4;
  private static final ComputeOptions CHECKPOINTED =
      ComputeOptions.builder()
          .activationCheckpointing(CheckpointPolicy.ofClasses(Set.of(Layer.class)))
          .build();

  @Test
  void findABlocksCalledTwiceAndTiedWeightsAreSynchronised() {
    Map<String, float[]> expected;
    try (var alone = new SingleStrategy(model(), new LocalCommunicator())) {
      expected = train(alone, 0, RANKS * ROWS);
    }
    for (DdpOptions options :
        List.of(
            DdpOptions.defaults(),
            DdpOptions.builder().bucketCapMb(0.0001).build(),
            DdpOptions.builder().gradientAsBucketView(true).bucketCapMb(0.0001).build(),
            DdpOptions.builder().staticGraph(true).build(),
            DdpOptions.builder().findUnusedParameters(true).bucketCapMb(0.0001).build())) {
      RankThreads.runConnected(
          RANKS,
          communicator -> {
            try (var strategy = new DdpStrategy(model(), communicator, options, CHECKPOINTED)) {
              Map<String, float[]> actual = train(strategy, communicator.rank() * ROWS, ROWS);
              expected.forEach(
                  (name, values) ->
                      assertThat(actual.get(name))
                          .as("%s under %s", name, options)
                          .usingComparatorWithPrecision(2e-5f)
                          .containsExactly(values));
            }
          });
    }
  }

  @Test
  void issuesTheCollectivesOfThePlainRun() {
    RankThreads.runConnected(
        RANKS,
        communicator -> {
          long[] calls = new long[2];
          for (int i = 0; i < 2; i++) {
            ComputeOptions compute = i == 0 ? ComputeOptions.defaults() : CHECKPOINTED;
            DdpOptions options = DdpOptions.builder().bucketCapMb(0.0001).build();
            // The group outlives the first strategy.
            var strategy = new DdpStrategy(model(), communicator, options, compute);
            train(strategy, communicator.rank() * ROWS, ROWS);
            calls[i] = communicator.counts().calls(Kind.ALL_REDUCE);
          }
          assertThat(calls[1] - calls[0]).isEqualTo(calls[0]).isGreaterThan(2L * STEPS);
        });
  }

  @Test
  void findBASecondBackwardFromOneForwardFailsOnEveryRank() {
    RankThreads.runConnected(
        RANKS,
        communicator -> {
          try (var strategy =
                  new DdpStrategy(model(), communicator, DdpOptions.defaults(), CHECKPOINTED);
              var scope = NativeScope.open()) {
            strategy.zeroGrad();
            step(strategy, 0, communicator.rank() * ROWS, ROWS);
            Tensor loss = strategy.model().call(rows(0, 0, ROWS)).sum();
            backward(loss);
            assertThatThrownBy(() -> backward(loss))
                .hasMessageContaining("Cannot run backward through block");
          }
        });
  }

  private static void backward(Tensor loss) {
    loss.backward(new Tensor(), new BoolOptional(true), false, new TensorArrayRefOptional());
  }

  /** Weights and the last gradients. */
  private static Map<String, float[]> train(ParallelStrategy strategy, int firstRow, int rows) {
    Map<String, float[]> result = new LinkedHashMap<>();
    for (int step = 0; step < STEPS; step++) {
      try (var scope = NativeScope.open()) {
        strategy.zeroGrad();
        step(strategy, step, firstRow, rows);
        for (var entry : strategy.trainable().entrySet()) {
          Tensor parameter = entry.getValue();
          result.put(entry.getKey() + " gradient", Tensors.toFloats(parameter.grad()));
          Tensors.overwrite(parameter, parameter.sub(parameter.grad().mul(Tensors.scalar(0.1))));
          result.put(entry.getKey(), Tensors.toFloats(parameter));
        }
      }
    }
    return result;
  }

  private static void step(ParallelStrategy strategy, int step, int firstRow, int rows) {
    strategy.forwardBackward(
        new Tensor[] {rows(step, firstRow, rows)},
        Tensors.zeros(
            io.sparktrainer.torch.DType.FLOAT32, io.sparktrainer.torch.Device.CPU, rows, 6),
        Losses.MSE,
        1,
        GradientSync.REDUCE);
  }

  private static Tensor rows(int seed, int firstRow, int rows) {
    float[] values = new float[rows * 6];
    for (int i = 0; i < values.length; i++) {
      values[i] = (float) Math.sin((i + firstRow * 6) * 0.7 + seed);
    }
    return Tensors.of(values, rows, 6);
  }

  private static Model model() {
    Rng.seed(4);
    return new Model();
  }

  private static final class Layer extends Block {
    private final Linear linear = child("linear", new Linear(6, 6));
    private final Tensor shared;

    private Layer(Tensor shared) {
      this.shared = tie("shared", shared);
    }

    @Override
    protected Tensor forward(Tensor... inputs) {
      return torch.tanh(linear.call(inputs[0]).matmul(shared));
    }
  }

  /** Calls one layer twice, another once, and uses the weight that both share outside of them. */
  private static final class Model extends Block {
    private final Tensor shared = parameter("shared", Init.normal(0.5, 6, 6));
    private final Layer twice = child("twice", new Layer(shared));
    private final Layer once = child("once", new Layer(shared));
    private final Linear head = child("head", new Linear(6, 6));

    @Override
    protected Tensor forward(Tensor... inputs) {
      Tensor x = twice.call(inputs[0].matmul(shared));
      x = once.call(twice.call(x));
      return head.call(x).matmul(shared.t());
    }
  }
}
