package io.sparktrainer.strategy.ddp;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import io.sparktrainer.comm.CollectiveCounts.Kind;
import io.sparktrainer.comm.testing.RankThreads;
import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.Loss;
import io.sparktrainer.nn.Losses;
import io.sparktrainer.nn.Mlp;
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
import java.util.Objects;
import java.util.function.Supplier;
import org.bytedeco.pytorch.BoolOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorArrayRefOptional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Bugs that users of PyTorch's DistributedDataParallel reported (numbers of pytorch/pytorch
 * issues), and a few more of its surprises, each as the behaviour that is right. Those about uneven
 * inputs, compression and synchronised batch norm are with those tests.
 */
class TestReports {
  /** Every combination of the options that change how gradients are kept and tracked. */
  static List<DdpOptions> allOptions() {
    List<DdpOptions> all = new ArrayList<>();
    for (int bits = 0; bits < 8; bits++) {
      all.add(
          DdpOptions.builder()
              .bucketCapMb(0.0005)
              .gradientAsBucketView((bits & 1) != 0)
              .staticGraph((bits & 2) != 0)
              .findUnusedParameters((bits & 4) != 0)
              .build());
    }
    return all;
  }

  /** 28294: a parameter nobody used keeps still, whatever momentum and weight decay say. */
  @Test
  void report2GloballyUnusedParametersAreNotMoved() {
    RankThreads.runConnected(
        2,
        communicator -> {
          DdpOptions options = DdpOptions.builder().findUnusedParameters(true).build();
          try (var strategy =
                  new DdpStrategy(seeded(DdpBlocks.ThreeHeads::new), communicator, options);
              var optimizer =
                  OptimizerSpec.sgd()
                      .lr(0.1)
                      .momentum(0.9)
                      .weightDecay(0.1)
                      .build()
                      .create(strategy.trainable())) {
            Tensor never = parameter(strategy, "never.weight");
            float[] before = Tensors.toFloats(never);
            for (int step = 0; step < 3; step++) {
              TestDdpStrategy.step(strategy, step, communicator.rank(), 1, GradientSync.REDUCE);
              optimizer.step(0.1);
              assertThat(never.grad().defined()).isFalse();
            }
            assertThat(Tensors.toFloats(never)).isEqualTo(before);
          }
        });
  }

  /** 97030: under static_graph an output that never enters the loss is no error. */
  @Test
  void report3StaticGraphAcceptsAnOutputThatIsNeverUsed() {
    equalsOneProcess(DdpBlocks.ThreeHeads::new, DdpOptions.builder().staticGraph(true).build());
  }

  /** 58111: several forward passes before the first backward do not upset static_graph. */
  @Test
  void report4StaticGraphWithTwoForwardsBeforeTheFirstBackward() {
    equalsOneProcess(
        DdpBlocks.Twice::new, DdpOptions.builder().staticGraph(true).syncBatchNorm(true).build());
  }

  /** 143580: the first step may accumulate under every combination of options. */
  @ParameterizedTest
  @MethodSource("allOptions")
  void report5AccumulationFromTheFirstStepOn(DdpOptions options) {
    float[] expected =
        TestDdpStrategy.train(
            new SingleStrategy(TestDdpStrategy.mlp(), TestDdpStrategy.alone()), 0, 4);
    RankThreads.runConnected(
        2,
        communicator -> {
          int first = 2 * communicator.rank();
          try (var strategy = new DdpStrategy(TestDdpStrategy.mlp(), communicator, options);
              var optimizer =
                  OptimizerSpec.sgd().lr(0.1).momentum(0.9).build().create(strategy.trainable())) {
            for (int step = 0; step < TestDdpStrategy.STEPS; step++) {
              strategy.zeroGrad();
              TestDdpStrategy.backward(strategy, step, first, 1, 0.5, GradientSync.ACCUMULATE);
              TestDdpStrategy.backward(strategy, step, first + 1, 1, 0.5, GradientSync.REDUCE);
              optimizer.step(0.1);
            }
            assertThat(TestDdpStrategy.weights(strategy.model()))
                .containsExactly(expected, within(1e-5f));
          }
        });
  }

  /** 22095, 65907: two forward passes through batch norm, whose buffers are broadcast. */
  @Test
  void report6TwoForwardsThroughBatchNormWithBroadcastBuffers() {
    equalsOneProcess(DdpBlocks.Twice::new, DdpOptions.builder().syncBatchNorm(true).build());
  }

  /** 105723: forward passes that use different parameters are one reduction each. */
  @Test
  void report7ThreeForwardsWithDifferentParameters() {
    equalsOneProcess(
        DdpBlocks.ThreeHeads::new,
        DdpOptions.builder().findUnusedParameters(true).bucketCapMb(0.0005).build());
  }

  /** 47562: gradients taken inside the loss are part of what is averaged. */
  @Test
  void report8GradientPenaltiesAreAveraged() {
    equalsOneProcess(DdpBlocks.Penalised::new, DdpOptions.defaults());
  }

  /** 63812, 63929: a parameter gradient with a graph is refused at once. */
  @Test
  void report9GradientsMadeWithCreateGraphAreRefusedByName() {
    Loss twice =
        (output, target) -> {
          Tensor loss = Losses.CROSS_ENTROPY.of(output, target);
          loss.backward(new Tensor(), new BoolOptional(true), true, new TensorArrayRefOptional());
          return loss;
        };
    TestDdpStrategy.assertFailsOnEveryRank(
        2,
        communicator -> {
          try (var strategy =
              new DdpStrategy(TestDdpStrategy.mlp(), communicator, DdpOptions.defaults())) {
            backward(strategy, communicator.rank(), 1, twice);
          }
        },
        IllegalStateException.class,
        "Cannot reduce the gradient of fc",
        "create_graph");
  }

  /** 32426, 102438: models of different depth fail everywhere, at construction. */
  @Test
  void report10ModelsWithDifferentNumbersOfParametersFailOnAllRanks() {
    TestDdpStrategy.assertFailsOnEveryRank(
        2,
        communicator -> {
          List<Integer> hidden = communicator.rank() == 0 ? List.of(4) : List.of(4, 4);
          new DdpStrategy(new Mlp(5, hidden, 3), communicator, DdpOptions.defaults());
        },
        IllegalStateException.class,
        "parameter fc2.weight: float32[3, 4]",
        "parameter fc2.weight: float32[4, 4]");
  }

  /** PR 72843: other collectives in the backward pass do not pair with the reductions. */
  @Test
  void report11ParametersUnusedOnSomeRanksBesideOtherCollectivesInBackward() {
    DdpOptions options =
        DdpOptions.builder()
            .findUnusedParameters(true)
            .syncBatchNorm(true)
            .bucketCapMb(0.0001)
            .build();
    List<float[]> models =
        RankThreads.collect(
            3,
            communicator -> {
              DdpBlocks.NormThenFork model = new DdpBlocks.NormThenFork();
              model.leftOnly = communicator.rank() == 1;
              return TestDdpStrategy.train(
                  new DdpStrategy(model, communicator, options), communicator.rank(), 1);
            });
    assertThat(models.get(1)).isEqualTo(models.get(0));
    assertThat(models.get(2)).isEqualTo(models.get(0));
  }

  /** 68803: ranks that leave out different parameters fail everywhere, at construction. */
  @Test
  void report12DifferentFrozenParametersFailOnAllRanks() {
    TestDdpStrategy.assertFailsOnEveryRank(
        2,
        communicator -> {
          Block model = TestDdpStrategy.mlp();
          Objects.requireNonNull(model.parameters().get("fc1.bias"))
              .set_requires_grad(communicator.rank() == 0);
          new DdpStrategy(model, communicator, DdpOptions.defaults());
        },
        IllegalStateException.class,
        "parameter fc1.bias: float32[33]\" on rank 0",
        "parameter fc1.bias: float32[33] frozen\" on rank 1");
  }

  /** 37030: clearing gradients breaks the alias with the bucket, and backward makes it anew. */
  @Test
  void report13GradientViewsSurviveClearing() {
    DdpOptions options = DdpOptions.builder().gradientAsBucketView(true).build();
    RankThreads.runConnected(
        2,
        communicator -> {
          try (var strategy = new DdpStrategy(TestDdpStrategy.mlp(), communicator, options)) {
            Tensor weight = parameter(strategy, "fc1.weight");
            Tensor bias = parameter(strategy, "fc1.bias");
            for (int step = 0; step < 4; step++) {
              TestDdpStrategy.step(strategy, step, communicator.rank(), 1, GradientSync.REDUCE);
              float[] once = Tensors.toFloats(weight.grad());
              try (var scope = NativeScope.open()) {
                assertThat(weight.grad().is_alias_of(bias.grad())).isTrue();
              }
              // Without clearing, the next backward adds to the mean that is there.
              TestDdpStrategy.backward(
                  strategy, step, communicator.rank(), 1, 1, GradientSync.REDUCE);
              float[] twice = Tensors.toFloats(weight.grad());
              for (int i = 0; i < once.length; i++) {
                assertThat(twice[i]).isCloseTo(2 * once[i], within(1e-6f));
              }
              strategy.zeroGrad();
              assertThat(weight.grad().defined()).isFalse();
            }
          }
        });
  }

  /** Two backward passes from one forward pass: both are in the mean (PyTorch: the first only). */
  @Test
  void findBASecondBackwardFromOneForwardIsReducedToo() {
    Loss twice =
        (output, target) -> {
          Tensor loss = Losses.CROSS_ENTROPY.of(output, target);
          loss.backward(new Tensor(), new BoolOptional(true), false, new TensorArrayRefOptional());
          return loss;
        };
    try (var single = new SingleStrategy(TestDdpStrategy.mlp(), TestDdpStrategy.alone())) {
      backward(single, 0, 2, twice);
      float[] expected = Tensors.toFloats(parameter(single, "fc1.weight").grad());
      RankThreads.runConnected(
          2,
          communicator -> {
            try (var strategy =
                new DdpStrategy(TestDdpStrategy.mlp(), communicator, DdpOptions.defaults())) {
              backward(strategy, communicator.rank(), 1, twice);
              assertThat(Tensors.toFloats(parameter(strategy, "fc1.weight").grad()))
                  .containsExactly(expected, within(1e-6f));
            }
          });
    }
  }

  @ParameterizedTest
  @MethodSource("allOptions")
  void tiedFrozenMixedScalarEmptyAndTransposedParameters(DdpOptions options) {
    equalsOneProcess(DdpBlocks.Odd::new, options);
  }

  @Test
  void report29GradientsKeepTheMemoryLayoutOfTheirParameter() {
    for (boolean asView : new boolean[] {false, true}) {
      DdpOptions options = DdpOptions.builder().gradientAsBucketView(asView).build();
      RankThreads.runConnected(
          2,
          communicator -> {
            try (var strategy = new DdpStrategy(new DdpBlocks.Odd(), communicator, options)) {
              TestDdpStrategy.step(strategy, 0, communicator.rank(), 1, GradientSync.REDUCE);
              Tensor transposed = parameter(strategy, "transposed");
              if (asView) {
                assertThat(Tensors.strides(transposed.grad()))
                    .isEqualTo(Tensors.strides(transposed));
              }
              assertThat(Tensors.shape(transposed.grad())).isEqualTo(Tensors.shape(transposed));
            }
          });
    }
  }

  @Test
  void unfreezingAParameterLaterFailsOnEveryRankByName() {
    TestDdpStrategy.assertFailsOnEveryRank(
        2,
        communicator -> {
          Block model = TestDdpStrategy.mlp();
          Tensor bias = Objects.requireNonNull(model.parameters().get("fc1.bias"));
          bias.set_requires_grad(false);
          try (var strategy = new DdpStrategy(model, communicator, DdpOptions.defaults())) {
            TestDdpStrategy.step(strategy, 0, communicator.rank(), 1, GradientSync.REDUCE);
            bias.set_requires_grad(communicator.rank() == 1);
            TestDdpStrategy.step(strategy, 1, communicator.rank(), 1, GradientSync.REDUCE);
          }
        },
        IllegalStateException.class,
        "fc1.bias unfrozen on rank 1",
        "Start a new training");
  }

  @Test
  void reductionsStartBeforeTheLastGradientArrives() {
    RankThreads.runConnected(
        2,
        communicator -> {
          DdpOptions options = DdpOptions.builder().bucketCapMb(0.0001).build();
          Block model = TestDdpStrategy.mlp();
          try (var strategy = new DdpStrategy(model, communicator, options)) {
            TestDdpStrategy.step(strategy, 0, communicator.rank(), 1, GradientSync.REDUCE);
            long[] startedBefore = new long[1];
            Tensor first = parameter(strategy, "fc1.weight");
            long before = communicator.counts().calls(Kind.ALL_REDUCE);
            try (var probe =
                new ArrivalProbe(
                    first,
                    () ->
                        startedBefore[0] = communicator.counts().calls(Kind.ALL_REDUCE) - before)) {
              TestDdpStrategy.step(strategy, 1, communicator.rank(), 1, GradientSync.REDUCE);
            }
            long all = communicator.counts().calls(Kind.ALL_REDUCE) - before;
            // Of four buckets, only that of the very last gradient has not been sent off.
            assertThat(all).isEqualTo(4);
            assertThat(startedBefore[0]).isEqualTo(3);
          }
        });
  }

  private static void equalsOneProcess(Supplier<Block> model, DdpOptions options) {
    float[] expected =
        TestDdpStrategy.train(new SingleStrategy(seeded(model), TestDdpStrategy.alone()), 0, 2);
    RankThreads.runConnected(
        2,
        communicator ->
            assertThat(
                    TestDdpStrategy.train(
                        new DdpStrategy(seeded(model), communicator, options),
                        communicator.rank(),
                        1))
                .containsExactly(expected, within(3e-5f)));
  }

  private static Block seeded(Supplier<Block> model) {
    Rng.seed(17);
    return model.get();
  }

  private static Tensor parameter(ParallelStrategy strategy, String name) {
    return Objects.requireNonNull(strategy.model().parameters().get(name));
  }

  private static void backward(ParallelStrategy strategy, int first, int slices, Loss loss) {
    try (var scope = NativeScope.open()) {
      strategy.forwardBackward(
          new Tensor[] {TestDdpStrategy.inputs(0, first, slices)},
          TestDdpStrategy.labels(0, first, slices),
          loss,
          1,
          GradientSync.REDUCE);
    }
  }
}
