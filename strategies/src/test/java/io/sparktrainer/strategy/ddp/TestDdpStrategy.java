package io.sparktrainer.strategy.ddp;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import io.sparktrainer.comm.CollectiveCounts.Kind;
import io.sparktrainer.comm.Communicator;
import io.sparktrainer.comm.LocalCommunicator;
import io.sparktrainer.comm.testing.RankThreads;
import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.Linear;
import io.sparktrainer.nn.Losses;
import io.sparktrainer.nn.Mlp;
import io.sparktrainer.optim.Optimizer;
import io.sparktrainer.optim.OptimizerSpec;
import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.strategy.GradientSync;
import io.sparktrainer.strategy.ParallelStrategy;
import io.sparktrainer.strategy.single.SingleStrategy;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Rng;
import io.sparktrainer.torch.Tensors;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class TestDdpStrategy {
  static final int STEPS = 20;
  private static final int ROWS = 6;

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3, 4})
  void equalsOneProcessOnTheConcatenatedBatch(int worldSize) {
    float[] expected = train(new SingleStrategy(mlp(), alone()), 0, worldSize);
    for (DdpOptions options :
        List.of(
            DdpOptions.defaults(),
            DdpOptions.builder().bucketCapMb(0.0005).build(),
            DdpOptions.builder().gradientAsBucketView(true).build(),
            DdpOptions.builder().staticGraph(true).build(),
            DdpOptions.builder().findUnusedParameters(true).bucketCapMb(0.0005).build())) {
      RankThreads.runConnected(
          worldSize,
          communicator -> {
            float[] actual =
                train(new DdpStrategy(mlp(), communicator, options), communicator.rank(), 1);
            for (int i = 0; i < actual.length; i++) {
              assertThat(actual[i])
                  .as("%s element %d", options, i)
                  .isCloseTo(expected[i], within(1e-5f));
            }
          });
    }
  }

  @Test
  void reducesOncePerBucketAndRebuildsInOrderOfArrival() {
    RankThreads.runConnected(
        2,
        communicator -> {
          DdpOptions options = DdpOptions.builder().bucketCapMb(0.0005).build();
          try (var strategy = new DdpStrategy(mlp(), communicator, options)) {
            List<Long> reductions = new ArrayList<>();
            for (int step = 0; step < 3; step++) {
              long before = communicator.counts().calls(Kind.ALL_REDUCE);
              step(strategy, step, communicator.rank(), 1, GradientSync.REDUCE);
              reductions.add(communicator.counts().calls(Kind.ALL_REDUCE) - before);
            }
            // One bucket in the first step. Then a bucket is closed at 524 bytes: fc3's gradients
            // and fc2's bias have 428, with fc2's weight 2,672; fc1's gradients are the second.
            assertThat(reductions).containsExactly(1L, 2L, 2L);
          }
        });
  }

  @Test
  void accumulatesWithoutCollectives() {
    float[] expected = train(new SingleStrategy(mlp(), alone()), 0, 4);
    RankThreads.runConnected(
        2,
        communicator -> {
          try (var strategy = new DdpStrategy(mlp(), communicator, DdpOptions.defaults());
              var optimizer = sgd(strategy)) {
            for (int step = 0; step < STEPS; step++) {
              strategy.zeroGrad();
              long before = communicator.counts().calls(Kind.ALL_REDUCE);
              backward(strategy, step, 2 * communicator.rank(), 1, 0.5, GradientSync.ACCUMULATE);
              assertThat(communicator.counts().calls(Kind.ALL_REDUCE)).isEqualTo(before);
              backward(strategy, step, 2 * communicator.rank() + 1, 1, 0.5, GradientSync.REDUCE);
              optimizer.step(0.1);
            }
            float[] actual = weights(strategy.model());
            for (int i = 0; i < actual.length; i++) {
              assertThat(actual[i]).isCloseTo(expected[i], within(1e-5f));
            }
          }
        });
  }

  @Test
  void startsFromTheFirstRanksParametersAndBuffers() {
    RankThreads.runConnected(
        3,
        communicator -> {
          Rng.seed(communicator.rank());
          try (var strategy =
              new DdpStrategy(new Mlp(5, List.of(4), 3), communicator, DdpOptions.defaults())) {
            Rng.seed(0);
            try (Block first = new Mlp(5, List.of(4), 3)) {
              assertThat(weights(strategy.model())).isEqualTo(weights(first));
            }
          }
        });
  }

  @Test
  void findCAParameterWithoutGradientFailsTheSameBackwardOnEveryRankByName() {
    assertFailsOnEveryRank(
        2,
        communicator -> {
          try (var strategy = new DdpStrategy(new Forked(), communicator, DdpOptions.defaults())) {
            // rank 1 leaves "right" out
            forkedStep(strategy, communicator.rank() == 1);
          }
        },
        IllegalStateException.class,
        "right.weight without gradient, right.bias without gradient, nobody.weight",
        "find_unused_parameters");
  }

  @Test
  void findUnusedParametersAveragesWhatSomeRankUsedAndLeavesTheRestAlone() {
    RankThreads.runConnected(
        2,
        communicator -> {
          DdpOptions options = DdpOptions.builder().findUnusedParameters(true).build();
          try (var strategy = new DdpStrategy(new Forked(), communicator, options)) {
            for (int step = 0; step < 3; step++) {
              strategy.zeroGrad();
              forkedStep(strategy, communicator.rank() == 1);
              Map<String, Tensor> parameters = strategy.trainable();
              assertThat(parameters.get("nobody.weight").grad().defined()).isFalse();
              // Only rank 0 used it: half of its gradient on both.
              assertThat(Tensors.toFloats(parameters.get("right.bias").grad())).containsOnly(0.5f);
              assertThat(Tensors.toFloats(parameters.get("left.bias").grad())).containsOnly(1f);
            }
          }
        });
  }

  @Test
  void staticGraphLearnsTheUnusedSetOnceAndRefusesAnother() {
    assertFailsOnEveryRank(
        2,
        communicator -> {
          DdpOptions options = DdpOptions.builder().staticGraph(true).build();
          try (var strategy = new DdpStrategy(new Forked(), communicator, options)) {
            for (int step = 0; step < 3; step++) {
              strategy.zeroGrad();
              forkedStep(strategy, false);
              assertThat(strategy.trainable().get("nobody.weight").grad().defined()).isFalse();
            }
            strategy.zeroGrad();
            forkedStep(strategy, communicator.rank() == 1);
          }
        },
        IllegalStateException.class,
        "expected the parameters used in the first step",
        "on rank 1");
  }

  @Test
  void findEDifferentModelsFailAtConstructionOnAllRanksNamingTheFirstDifference() {
    assertFailsOnEveryRank(
        3,
        communicator -> {
          int width = communicator.rank() == 2 ? 7 : 4;
          new DdpStrategy(new Mlp(5, List.of(width), 3), communicator, DdpOptions.defaults());
        },
        IllegalStateException.class,
        "parameter fc1.weight: float32[4, 5]",
        "parameter fc1.weight: float32[7, 5]",
        "rank 2");
  }

  @Test
  void aModelWithoutTrainableParametersIsRefused() {
    Block frozen = new Mlp(5, List.of(4), 3);
    frozen.parameters().values().forEach(parameter -> parameter.set_requires_grad(false));
    assertThatThrownBy(() -> new DdpStrategy(frozen, alone(), DdpOptions.defaults()))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("at least one parameter with requires_grad");
  }

  @Test
  void nothingRunsAfterAFailureOrAfterClose() {
    ParallelStrategy strategy = new SingleStrategy(mlp(), alone());
    assertThatThrownBy(
            () -> {
              try (var scope = NativeScope.open()) {
                strategy.forwardBackward(
                    new Tensor[] {Tensors.of(new float[3], 1, 3)},
                    Tensors.of(new long[1], 1),
                    Losses.CROSS_ENTROPY,
                    1,
                    GradientSync.REDUCE);
              }
            })
        .isInstanceOf(RuntimeException.class);
    assertThatThrownBy(() -> step(strategy, 0, 0, 1, GradientSync.REDUCE))
        .isInstanceOf(IllegalStateException.class)
        .hasMessageContaining("got failed");
    strategy.close();
    assertThatThrownBy(() -> step(strategy, 0, 0, 1, GradientSync.REDUCE))
        .isInstanceOf(IllegalStateException.class)
        .hasMessageContaining("got closed");
  }

  static void assertFailsOnEveryRank(
      int worldSize,
      RankThreads.GroupBody body,
      Class<? extends Throwable> type,
      String... messages) {
    boolean[] failed = new boolean[worldSize];
    RankThreads.runConnected(
        worldSize,
        communicator -> {
          assertThatThrownBy(() -> body.run(communicator))
              .isInstanceOf(type)
              .hasMessageContainingAll(messages);
          failed[communicator.rank()] = true;
        });
    assertThat(failed).containsOnly(true);
  }

  static float[] train(ParallelStrategy strategy, int firstSlice, int slices) {
    try (strategy;
        Optimizer optimizer = sgd(strategy)) {
      for (int step = 0; step < STEPS; step++) {
        step(strategy, step, firstSlice, slices, GradientSync.REDUCE);
        optimizer.step(0.1);
      }
      return weights(strategy.model());
    }
  }

  private static Optimizer sgd(ParallelStrategy strategy) {
    return OptimizerSpec.sgd().lr(0.1).momentum(0.9).build().create(strategy.trainable());
  }

  static void step(
      ParallelStrategy strategy, int step, int firstSlice, int slices, GradientSync sync) {
    strategy.zeroGrad();
    backward(strategy, step, firstSlice, slices, 1, sync);
  }

  /** Slice r of a step's rows is what rank r of a larger world sees. */
  static void backward(
      ParallelStrategy strategy,
      int step,
      int firstSlice,
      int slices,
      double scale,
      GradientSync sync) {
    try (var scope = NativeScope.open()) {
      strategy.forwardBackward(
          new Tensor[] {inputs(step, firstSlice, slices)},
          labels(step, firstSlice, slices),
          Losses.CROSS_ENTROPY,
          scale,
          sync);
    }
  }

  static Tensor inputs(int step, int firstSlice, int slices) {
    float[] x = new float[slices * ROWS * 20];
    for (int i = 0; i < x.length; i++) {
      x[i] = (float) Math.sin(step * 7 + (firstSlice * ROWS * 20 + i) * 0.37);
    }
    return Tensors.of(x, (long) slices * ROWS, 20);
  }

  static Tensor labels(int step, int firstSlice, int slices) {
    long[] y = new long[slices * ROWS];
    for (int i = 0; i < y.length; i++) {
      y[i] = (firstSlice * ROWS + i + step) % 5L;
    }
    return Tensors.of(y, y.length);
  }

  private static void forkedStep(ParallelStrategy strategy, boolean leftOnly) {
    try (var scope = NativeScope.open()) {
      ((Forked) strategy.model()).leftOnly = leftOnly;
      strategy.forwardBackward(
          new Tensor[] {Tensors.of(new float[] {1, 2, 3}, 1, 3)},
          Tensors.of(new float[] {0}, 1),
          (output, target) -> output.sum(),
          1,
          GradientSync.REDUCE);
    }
  }

  static Block mlp() {
    Rng.seed(11);
    return new Mlp(20, List.of(33, 17), 5);
  }

  static float[] weights(Block model) {
    try (var scope = NativeScope.open()) {
      Tensor[] flat =
          model.state().values().stream().map(t -> t.detach().flatten()).toArray(Tensor[]::new);
      return Tensors.toFloats(torch.cat(new org.bytedeco.pytorch.TensorVector(flat)));
    }
  }

  static Communicator alone() {
    return new LocalCommunicator();
  }

  /** Two branches, of which one may be left out, and one that is never used. */
  private static final class Forked extends Block {
    private final Linear left = child("left", new Linear(3, 2));
    private final Linear right = child("right", new Linear(3, 2));
    private boolean leftOnly;

    private Forked() {
      child("nobody", new Linear(1, 1));
    }

    @Override
    protected Tensor forward(Tensor... inputs) {
      Tensor out = left.call(inputs);
      return leftOnly ? out : out.add(right.call(inputs));
    }
  }
}
