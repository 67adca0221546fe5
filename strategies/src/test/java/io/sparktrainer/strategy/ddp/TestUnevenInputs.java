package io.sparktrainer.strategy.ddp;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import io.sparktrainer.comm.LocalCommunicator;
import io.sparktrainer.comm.testing.RankThreads;
import io.sparktrainer.nn.BatchNorm2d;
import io.sparktrainer.nn.Block;
import io.sparktrainer.optim.OptimizerSpec;
import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.strategy.GradientCompression;
import io.sparktrainer.strategy.GradientSync;
import io.sparktrainer.strategy.ParallelStrategy;
import io.sparktrainer.strategy.UnevenInputs;
import io.sparktrainer.strategy.single.SingleStrategy;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.util.List;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class TestUnevenInputs {
  /** What PyTorch's join gives for 2 and 3 steps of gradient 1 at learning rate 1. */
  @Test
  void dividesByTheWorldOrByTheActiveRanks() {
    assertThat(biasAfter(UnevenInputs.DIVIDE_BY_WORLD)).containsOnly(-2.5f);
    assertThat(biasAfter(UnevenInputs.DIVIDE_BY_ACTIVE)).containsOnly(-3f);
  }

  private static float[] biasAfter(UnevenInputs unevenInputs) {
    List<Float> biases =
        RankThreads.collect(
            2,
            communicator -> {
              DdpOptions options = DdpOptions.builder().unevenInputs(unevenInputs).build();
              try (var strategy = new DdpStrategy(new Shift(), communicator, options)) {
                epoch(strategy, 2 + communicator.rank(), 0);
                return Tensors.toFloats(strategy.model().parameters().get("bias"))[0];
              }
            });
    return new float[] {biases.get(0), biases.get(1)};
  }

  private static void epoch(DdpStrategy strategy, int steps, double momentum) {
    try (var optimizer =
        OptimizerSpec.sgd().lr(1).momentum(momentum).build().create(strategy.trainable())) {
      long total = strategy.beginEpoch(steps);
      for (long step = 0; step < total; step++) {
        strategy.zeroGrad();
        if (step < steps) {
          one(strategy);
        } else {
          strategy.shadowStep();
        }
        optimizer.step(1);
      }
      strategy.endEpoch();
    }
  }

  private static void one(ParallelStrategy strategy) {
    try (var scope = NativeScope.open()) {
      Tensor x = Tensors.of(new float[] {1}, 1);
      strategy.forwardBackward(
          new Tensor[] {x}, x, (output, target) -> output.sum(), 1, GradientSync.REDUCE);
    }
  }

  /** pytorch/pytorch 33148, 38174: a rank with fewer batches must not leave the others hanging. */
  @ParameterizedTest
  @EnumSource(Options.class)
  void report1RanksWithFewerStepsFollowTheOthersToTheSameModel(Options options) {
    int[] steps = {3, 0, 5};
    // World division: a rank without data adds nothing, which is what a loss of zero rows adds.
    float[] expected = singleProcess(steps);
    List<float[]> models =
        RankThreads.collect(
            steps.length,
            communicator -> {
              DdpOptions chosen =
                  options
                      .apply(DdpOptions.builder())
                      .bucketCapMb(0.0005)
                      .unevenInputs(UnevenInputs.DIVIDE_BY_WORLD)
                      .build();
              try (var strategy = new DdpStrategy(TestDdpStrategy.mlp(), communicator, chosen);
                  var optimizer =
                      OptimizerSpec.sgd()
                          .lr(0.1)
                          .momentum(0.9)
                          .build()
                          .create(strategy.trainable())) {
                for (int epoch = 0; epoch < 2; epoch++) {
                  train(strategy, optimizer, steps[communicator.rank()], communicator.rank());
                }
                return TestDdpStrategy.weights(strategy.model());
              }
            });
    for (float[] model : models) {
      assertThat(model).isEqualTo(models.get(0));
      assertThat(model).containsExactly(expected, within(options.tolerance));
    }
  }

  private enum Options {
    DEFAULTS(2e-5f) {
      @Override
      DdpOptions.Builder apply(DdpOptions.Builder builder) {
        return builder;
      }
    },
    BUCKET_VIEW(2e-5f) {
      @Override
      DdpOptions.Builder apply(DdpOptions.Builder builder) {
        return builder.gradientAsBucketView(true);
      }
    },
    STATIC_GRAPH(2e-5f) {
      @Override
      DdpOptions.Builder apply(DdpOptions.Builder builder) {
        return builder.staticGraph(true);
      }
    },
    FIND_UNUSED(2e-5f) {
      @Override
      DdpOptions.Builder apply(DdpOptions.Builder builder) {
        return builder.findUnusedParameters(true);
      }
    },
    FP16(2e-3f) {
      @Override
      DdpOptions.Builder apply(DdpOptions.Builder builder) {
        return builder.compression(new GradientCompression.Fp16());
      }
    };

    private final float tolerance;

    Options(float tolerance) {
      this.tolerance = tolerance;
    }

    abstract DdpOptions.Builder apply(DdpOptions.Builder builder);
  }

  private static void train(
      DdpStrategy strategy, io.sparktrainer.optim.Optimizer optimizer, int steps, int slice) {
    long total = strategy.beginEpoch(steps);
    for (int step = 0; step < total; step++) {
      if (step < steps) {
        TestDdpStrategy.step(strategy, step, slice, 1, GradientSync.REDUCE);
      } else {
        strategy.zeroGrad();
        strategy.shadowStep();
      }
      optimizer.step(0.1);
    }
    strategy.endEpoch();
  }

  /** Each step's loss is the sum of the active ranks' losses over the world size. */
  private static float[] singleProcess(int... steps) {
    try (var strategy = new SingleStrategy(TestDdpStrategy.mlp(), new LocalCommunicator());
        var optimizer =
            OptimizerSpec.sgd().lr(0.1).momentum(0.9).build().create(strategy.trainable())) {
      for (int epoch = 0; epoch < 2; epoch++) {
        for (int step = 0; step < 5; step++) {
          strategy.zeroGrad();
          for (int rank = 0; rank < steps.length; rank++) {
            if (step < steps[rank]) {
              TestDdpStrategy.backward(
                  strategy, step, rank, 1, 1.0 / steps.length, GradientSync.REDUCE);
            }
          }
          optimizer.step(0.1);
        }
      }
      return TestDdpStrategy.weights(strategy.model());
    }
  }

  @Test
  void buffersComeFromTheHighestActiveRankAndInTheEndFromTheLastJoiner() {
    List<float[]> means =
        RankThreads.collect(
            3,
            communicator -> {
              int[] steps = {3, 3, 1};
              DdpOptions options =
                  DdpOptions.builder().unevenInputs(UnevenInputs.DIVIDE_BY_WORLD).build();
              try (var strategy = new DdpStrategy(new BatchNorm2d(1), communicator, options)) {
                long total = strategy.beginEpoch(steps[communicator.rank()]);
                for (int step = 0; step < total; step++) {
                  strategy.zeroGrad();
                  if (step < steps[communicator.rank()]) {
                    normalise(strategy, 1 + communicator.rank());
                  } else {
                    strategy.shadowStep();
                  }
                }
                strategy.endEpoch();
                return Tensors.toFloats(strategy.model().buffers().get("running_mean"));
              }
            });
    // Rank 1 is the highest with data after the first step: 0.9 * (0.9 * 0.2 + 0.2) + 0.2.
    for (float[] mean : means) {
      assertThat(mean[0]).isCloseTo(0.542f, within(1e-5f));
    }
  }

  private static void normalise(ParallelStrategy strategy, float mean) {
    try (var scope = NativeScope.open()) {
      Tensor x = Tensors.of(new float[] {mean - 1, mean + 1}, 2, 1, 1, 1);
      strategy.forwardBackward(
          new Tensor[] {x}, x, (output, target) -> output.sum(), 1, GradientSync.REDUCE);
    }
  }

  @Test
  void anExceptionOnOneRankEndsTheOthersWait() {
    boolean[] freed = new boolean[2];
    assertThatThrownBy(
            () ->
                RankThreads.runConnected(
                    2,
                    communicator -> {
                      DdpOptions options =
                          DdpOptions.builder().unevenInputs(UnevenInputs.DIVIDE_BY_WORLD).build();
                      var strategy = new DdpStrategy(new Shift(), communicator, options);
                      strategy.beginEpoch(2 - communicator.rank());
                      if (communicator.rank() == 0) {
                        one(strategy);
                        strategy.abort("no more data: disk on fire");
                        throw new IllegalStateException("disk on fire");
                      }
                      // The abort may already reach the end of the step before.
                      assertThatThrownBy(
                              () -> {
                                one(strategy);
                                strategy.shadowStep();
                              })
                          .isInstanceOf(RuntimeException.class)
                          .hasMessageContaining("disk on fire");
                      freed[1] = true;
                    }))
        .hasMessageContaining("disk on fire");
    assertThat(freed[1]).isTrue();
  }

  @Test
  void stepsThatWereNotAnnouncedAreRefused() {
    DdpOptions options = DdpOptions.builder().unevenInputs(UnevenInputs.DIVIDE_BY_WORLD).build();
    try (var strategy = new DdpStrategy(new Shift(), new LocalCommunicator(), options)) {
      assertThatThrownBy(() -> strategy.beginEpoch(0))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessageContaining("expected at least one step on some rank, got [0]");
      assertThatThrownBy(strategy::shadowStep)
          .isInstanceOf(IllegalStateException.class)
          .hasMessageContaining("Call beginEpoch first");
      assertThat(strategy.beginEpoch(1)).isEqualTo(1);
      assertThatThrownBy(strategy::shadowStep).hasMessageContaining("Cannot shadow a step");
      assertThatThrownBy(strategy::endEpoch)
          .hasMessageContaining("Cannot end the epoch: expected 1 steps, got 0");
      one(strategy);
      assertThatThrownBy(() -> one(strategy))
          .hasMessageContaining("expected at most the 1 steps that beginEpoch was told");
    }
  }

  @Test
  void withoutTheOptionShadowingIsRefused() {
    try (var strategy =
        new DdpStrategy(new Shift(), new LocalCommunicator(), DdpOptions.defaults())) {
      assertThat(strategy.allowsUnevenSteps()).isFalse();
      assertThat(strategy.beginEpoch(4)).isEqualTo(4);
      assertThatThrownBy(strategy::shadowStep).isInstanceOf(IllegalStateException.class);
    }
  }

  /** Adds a bias: its gradient is 1 for every row. */
  private static final class Shift extends Block {
    private final Tensor bias = parameter("bias", Tensors.of(new float[] {0}, 1));

    @Override
    protected Tensor forward(Tensor... inputs) {
      return inputs[0].add(bias);
    }
  }
}
