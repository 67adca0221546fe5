package io.sparktrainer.strategy.dp;

import static io.sparktrainer.strategy.dp.DpBlocks.images;
import static io.sparktrainer.strategy.dp.DpBlocks.mlp;
import static io.sparktrainer.strategy.dp.DpBlocks.rows;
import static io.sparktrainer.strategy.dp.DpBlocks.target;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import io.sparktrainer.comm.LocalCommunicator;
import io.sparktrainer.comm.testing.RankThreads;
import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.CheckpointPolicy;
import io.sparktrainer.nn.Cnn;
import io.sparktrainer.nn.Linear;
import io.sparktrainer.nn.Losses;
import io.sparktrainer.nn.Mlp;
import io.sparktrainer.optim.Optimizer;
import io.sparktrainer.optim.OptimizerSpec;
import io.sparktrainer.strategy.ComputeOptions;
import io.sparktrainer.strategy.GradientSync;
import io.sparktrainer.strategy.ParallelStrategy;
import io.sparktrainer.strategy.Precision;
import io.sparktrainer.strategy.StrategySpec;
import io.sparktrainer.strategy.dp.DpBlocks.Averaging;
import io.sparktrainer.strategy.dp.DpBlocks.Dropping;
import io.sparktrainer.strategy.dp.DpBlocks.Forked;
import io.sparktrainer.strategy.dp.DpBlocks.Observing;
import io.sparktrainer.strategy.dp.DpBlocks.Picky;
import io.sparktrainer.strategy.single.SingleStrategy;
import io.sparktrainer.testing.Memory;
import io.sparktrainer.torch.Autocast;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Gradients;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Rng;
import io.sparktrainer.torch.Tensors;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class TestDpStrategy {
  private static final int STEPS = 20;
  private static final ComputeOptions PLAIN = ComputeOptions.defaults();

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3, 4})
  void equalsOneReplicaOnTheWholeBatch(int replicas) {
    for (int rows : new int[] {8, 5, 3, 1}) {
      float[] expected = train(new SingleStrategy(mlp(), new LocalCommunicator()), rows);
      float[] actual = train(dp(DpBlocks::mlp, replicas, PLAIN), rows);
      for (int i = 0; i < actual.length; i++) {
        assertThat(actual[i])
            .as("%d rows, element %d", rows, i)
            .isCloseTo(expected[i], within(1e-5f));
      }
    }
  }

  @Test
  void aCheckpointedReplicaEqualsThePlainOne() {
    ComputeOptions options =
        ComputeOptions.builder()
            .activationCheckpointing(CheckpointPolicy.ofClasses(Set.of(Linear.class)))
            .build();
    float[] expected = train(new SingleStrategy(mlp(), new LocalCommunicator()), 5);
    assertThat(train(dp(DpBlocks::mlp, 3, options), 5))
        .usingComparatorWithPrecision(1e-5f)
        .containsExactly(expected);
  }

  @Test
  void batchNormInEvaluationEqualsTheWholeBatch() {
    List<float[]> gradients = new ArrayList<>();
    Supplier<Block> cnn = () -> new Cnn(1, 8, 8, 16, 3);
    for (ParallelStrategy strategy :
        List.of(new SingleStrategy(seeded(cnn), new LocalCommunicator()), dp(cnn, 2, PLAIN))) {
      try (strategy;
          var scope = NativeScope.open()) {
        strategy.model().eval();
        backward(strategy, images(5), target(5));
        gradients.add(gradients(strategy));
      }
    }
    assertThat(gradients.get(1))
        .usingComparatorWithPrecision(1e-5f)
        .containsExactly(gradients.get(0));
  }

  @Test
  void batchNormKeepsTheStatisticsOfTheFirstPiece() {
    Supplier<Block> cnn = () -> new Cnn(1, 8, 8, 16, 3);
    try (var scope = NativeScope.open();
        var first = new SingleStrategy(seeded(cnn), new LocalCommunicator());
        var strategy = dp(cnn, 2, PLAIN)) {
      backward(first, images(5).narrow(0, 0, 3), target(5).narrow(0, 0, 3));
      backward(strategy, images(5), target(5));
      Map<String, Tensor> buffers = strategy.model().buffers();
      first
          .model()
          .buffers()
          .forEach(
              (name, tensor) ->
                  assertThat(Tensors.toFloats(buffers.get(name)))
                      .as(name)
                      .containsExactly(Tensors.toFloats(tensor)));
      // The next forward pass starts from the root's, everywhere.
      strategy.model().eval();
      strategy.predict(images(4));
      assertThat(Tensors.toFloats(strategy.replica(1).buffers().get("bn1.running_mean")))
          .containsExactly(Tensors.toFloats(buffers.get("bn1.running_mean")));
      assertThat(strategy.replica(1).training()).isFalse();
    }
  }

  @Test
  void report16ScalarOutputsAreAveragedByRowsAndOthersAreJoined() {
    try (var scope = NativeScope.open();
        var strategy = dp(DpBlocks::mlp, 3, PLAIN);
        var mean = dp(Averaging::new, 3, PLAIN)) {
      Tensor x = rows(0, 5);
      assertThat(Tensors.shape(strategy.predict(x))).containsExactly(5, 3);
      assertThat(Tensors.toFloats(strategy.predict(x)))
          .usingComparatorWithPrecision(1e-6f)
          .containsExactly(Tensors.toFloats(strategy.model().call(x)));
      Tensor output = mean.predict(x);
      assertThat(output.dim()).isZero();
      assertThat(output.item_double()).isCloseTo(mean.model().call(x).item_double(), within(1e-6));
    }
  }

  @Test
  void report17ReplicasHaveParametersThatShareTheRootsMemory() {
    List<Integer> seen = Collections.synchronizedList(new ArrayList<>());
    Supplier<Block> factory = () -> new Observing(block -> seen.add(block.parameters().size()));
    try (var strategy = dp(factory, 3, PLAIN)) {
      try (var optimizer = sgd(strategy);
          var scope = NativeScope.open()) {
        for (int step = 0; step < 2; step++) {
          strategy.zeroGrad();
          backward(strategy, rows(step, 6), target(6));
          optimizer.step(0.1);
        }
      }
      assertThat(seen).containsExactly(2, 2, 2, 2, 2, 2);
      Map<String, Tensor> root = strategy.model().parameters();
      for (int replica = 1; replica < 3; replica++) {
        strategy
            .replica(replica)
            .parameters()
            .forEach(
                (name, tensor) -> {
                  assertThat(tensor.data_ptr().address())
                      .isEqualTo(root.get(name).data_ptr().address());
                  assertThat(tensor.is_leaf() && tensor.requires_grad()).isTrue();
                  assertThat(tensor.grad().defined()).isFalse();
                });
      }
    }
  }

  @Test
  void onlyAsManyReplicasRunAsThereArePieces() {
    Set<Block> ran = ConcurrentHashMap.newKeySet();
    try (var strategy = dp(() -> new Observing(ran::add), 4, PLAIN);
        var scope = NativeScope.open()) {
      backward(strategy, rows(0, 5), target(5));
      assertThat(ran).hasSize(3).doesNotContain(strategy.replica(3));
    }
  }

  @Test
  void gradientModeAutocastAndThreadsReachEveryReplica() {
    List<String> states = Collections.synchronizedList(new ArrayList<>());
    Supplier<Block> factory =
        () ->
            new Observing(
                block ->
                    states.add(
                        Thread.currentThread().getName().replaceAll("\\d", "")
                            + Gradients.areOn()
                            + Autocast.current().cpu()));
    ComputeOptions options = ComputeOptions.builder().precision(Precision.BF16).build();
    try (var strategy = dp(factory, 2, options);
        var scope = NativeScope.open()) {
      assertThat(DType.of(strategy.predict(rows(0, 4)))).isEqualTo(DType.FLOAT32);
      backward(strategy, rows(0, 4), target(4));
    }
    assertThat(states)
        .containsExactly(
            "replica-falsebfloat16",
            "replica-falsebfloat16",
            "replica-truebfloat16",
            "replica-truebfloat16");
    assertThat(Autocast.current().cpu()).isEqualTo(DType.FLOAT32);
  }

  @Test
  void dropoutDiffersBetweenReplicasAndRepeatsBetweenRuns() {
    List<float[]> outputs = new ArrayList<>();
    for (int run = 0; run < 2; run++) {
      try (var strategy = dp(Dropping::new, 2, PLAIN);
          var scope = NativeScope.open()) {
        Rng.seed(9);
        outputs.add(Tensors.toFloats(strategy.predict(torch.ones_like(rows(0, 8)))));
      }
    }
    assertThat(outputs.get(1)).containsExactly(outputs.get(0));
    float[] all = outputs.get(0);
    assertThat(java.util.Arrays.copyOf(all, all.length / 2))
        .isNotEqualTo(java.util.Arrays.copyOfRange(all, all.length / 2, all.length));
  }

  @Test
  void onePieceDrawsFromTheCallersSequence() {
    List<float[]> outputs = new ArrayList<>();
    for (ParallelStrategy strategy :
        List.of(
            new SingleStrategy(seeded(Dropping::new), new LocalCommunicator()),
            dp(Dropping::new, 4, PLAIN))) {
      try (strategy;
          var scope = NativeScope.open()) {
        Rng.seed(9);
        outputs.add(Tensors.toFloats(strategy.predict(rows(0, 1))));
      }
    }
    assertThat(outputs.get(1)).containsExactly(outputs.get(0));
  }

  @Test
  void theFirstFailureComesBackWithItsReplica() {
    try (var scope = NativeScope.open();
        var strategy = dp(Picky::new, 3, PLAIN)) {
      backward(strategy, rows(0, 6), target(6));
      Tensor x = rows(0, 6);
      x.narrow(0, 4, 1).fill_(Tensors.scalar(99));
      assertThatThrownBy(() -> backward(strategy, x, target(6)))
          .isInstanceOf(ReplicaException.class)
          .hasMessage("Cannot run replica 2 of 3: row out of range")
          .hasCauseInstanceOf(UnsupportedOperationException.class)
          .satisfies(e -> assertThat(((ReplicaException) e).replica()).isEqualTo(2));
      assertThatThrownBy(() -> backward(strategy, rows(0, 6), target(6)))
          .isInstanceOf(IllegalStateException.class)
          .hasMessageContaining("Cannot go on training with dp: expected state ready, got failed");
    }
  }

  @Test
  void stepsDoNotGrowTheProcess() {
    ComputeOptions options =
        ComputeOptions.builder()
            .precision(Precision.BF16)
            .activationCheckpointing(CheckpointPolicy.ofClasses(Set.of(Linear.class)))
            .build();
    // 256 KiB of weights per layer: a step that kept a gradient would show at once.
    try (var strategy = dp(() -> new Mlp(4, List.of(256, 256), 3), 2, options)) {
      long growth =
          Memory.growth(
              60,
              () -> {
                try (var scope = NativeScope.open()) {
                  strategy.zeroGrad();
                  backward(strategy, rows(0, 6), target(6));
                  strategy.predict(rows(0, 6));
                }
              });
      assertThat(growth).isLessThan(8L << 20);
    }
  }

  @Test
  void frozenAndUnusedParametersGetNoGradient() {
    try (var scope = NativeScope.open();
        var strategy = dp(Forked::new, 2, PLAIN)) {
      strategy.model().parameters().get("used.bias").set_requires_grad(false);
      backward(strategy, rows(0, 4), target(4));
      Map<String, Tensor> parameters = strategy.model().parameters();
      assertThat(parameters.get("used.weight").grad().defined()).isTrue();
      assertThat(parameters.get("used.bias").grad().defined()).isFalse();
      assertThat(parameters.get("idle.weight").grad().defined()).isFalse();
    }
  }

  @Test
  void severalRanksAreRefusedAndPointedToDdp() {
    RankThreads.runConnected(
        2,
        communicator ->
            assertThatThrownBy(
                    () ->
                        new DpStrategy(
                            DpBlocks::mlp, communicator, StrategySpec.Dp.onCpu(2), PLAIN))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessage(
                    "Cannot use strategy dp: expected one rank on one host, got 2 ranks. Use ddp for several."));
  }

  @Test
  void factoriesThatDoNotRepeatAreRefused() {
    List<Integer> widths = new ArrayList<>(List.of(4, 5));
    assertThatThrownBy(() -> dp(() -> new Mlp(4, List.of(widths.remove(0)), 3), 2, PLAIN))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("Cannot replicate Mlp: expected the model's factory to return a new")
        .hasMessageContaining("fc1.weight[5, 4]");
    Block same = mlp();
    assertThatThrownBy(() -> dp(() -> same, 2, PLAIN)).hasMessageContaining("got the same object");
  }

  @Test
  void badSpecificationsAreRefused() {
    assertThatThrownBy(() -> StrategySpec.Dp.onCpu(0))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("Cannot use dp: expected at least 1 replica, got 0.");
    assertThatThrownBy(() -> StrategySpec.Dp.onDevices(List.of(0, 0)))
        .hasMessageContaining("device_ids [0, 0]: expected 2 different indices from 0 up");
    assertThatThrownBy(() -> new StrategySpec.Dp(List.of(0), 2))
        .hasMessageContaining("device_ids [0]: expected 2 different indices");
    assertThatThrownBy(() -> StrategySpec.Dp.onDevices(List.of()))
        .hasMessageContaining("at least 1 replica");
  }

  private static <B extends Block> B seeded(Supplier<B> factory) {
    Rng.seed(1);
    return factory.get();
  }

  private static DpStrategy dp(
      Supplier<? extends Block> factory, int replicas, ComputeOptions options) {
    Rng.seed(1);
    return new DpStrategy(
        factory, new LocalCommunicator(), StrategySpec.Dp.onCpu(replicas), options);
  }

  /** Weights after {@link #STEPS} steps of two micro-batches. */
  private static float[] train(ParallelStrategy strategy, int rows) {
    Rng.seed(1);
    try (strategy;
        var source = mlp()) {
      // The strategy's own model may have been made from another random state.
      strategy
          .model()
          .parameters()
          .forEach((name, tensor) -> Tensors.overwrite(tensor, source.parameters().get(name)));
      try (var optimizer = sgd(strategy)) {
        for (int step = 0; step < STEPS; step++) {
          try (var scope = NativeScope.open()) {
            strategy.zeroGrad();
            for (int micro = 0; micro < 2; micro++) {
              strategy.forwardBackward(
                  new Tensor[] {rows(2 * step + micro, rows)},
                  target(rows),
                  Losses.CROSS_ENTROPY,
                  0.5,
                  micro == 1 ? GradientSync.REDUCE : GradientSync.ACCUMULATE);
            }
            strategy.clipGradNorm(0.5);
            optimizer.step(0.1);
          }
        }
      }
      return flat(strategy.model().parameters().values().stream().toList());
    }
  }

  private static Optimizer sgd(ParallelStrategy strategy) {
    return OptimizerSpec.sgd().lr(0.1).momentum(0.9).build().create(strategy.trainable());
  }

  private static double backward(ParallelStrategy strategy, Tensor x, Tensor target) {
    return strategy
        .forwardBackward(new Tensor[] {x}, target, Losses.CROSS_ENTROPY, 1, GradientSync.REDUCE)
        .item_double();
  }

  private static float[] gradients(ParallelStrategy strategy) {
    return flat(strategy.trainable().values().stream().map(Tensor::grad).toList());
  }

  private static float[] flat(List<Tensor> tensors) {
    List<float[]> parts = tensors.stream().map(Tensors::toFloats).toList();
    float[] all = new float[parts.stream().mapToInt(part -> part.length).sum()];
    int offset = 0;
    for (float[] part : parts) {
      System.arraycopy(part, 0, all, offset, part.length);
      offset += part.length;
    }
    return all;
  }
}
