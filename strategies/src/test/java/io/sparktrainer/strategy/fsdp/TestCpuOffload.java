package io.sparktrainer.strategy.fsdp;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.withinPercentage;

import io.sparktrainer.comm.LocalCommunicator;
import io.sparktrainer.nn.Block;
import io.sparktrainer.optim.Optimizer;
import io.sparktrainer.optim.OptimizerSpec;
import io.sparktrainer.strategy.BackwardPrefetch;
import io.sparktrainer.strategy.FsdpOptions;
import io.sparktrainer.strategy.GradientSync;
import io.sparktrainer.strategy.MixedPrecision;
import io.sparktrainer.strategy.Precision;
import io.sparktrainer.strategy.ShardingStrategy;
import io.sparktrainer.strategy.StrategySpec;
import io.sparktrainer.strategy.plan.Activations;
import io.sparktrainer.strategy.plan.Machines;
import io.sparktrainer.strategy.plan.MemoryUse;
import io.sparktrainer.strategy.plan.ModelOutline;
import io.sparktrainer.strategy.plan.Planner;
import io.sparktrainer.strategy.plan.StepOutline;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.NativeScope;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * The whole way of {@code cpu_offload} without a GPU: shards in a home of their own, copied to
 * where the model computes before each gather, and reduced pieces copied back.
 */
class TestCpuOffload {
  private static final OptimizerSpec ADAM = OptimizerSpec.adamW().build();
  private static final MixedPrecision BF16 = new MixedPrecision(DType.BFLOAT16, null, null);
  private static final MixedPrecision FP16_REDUCED = new MixedPrecision(null, DType.FLOAT16, null);

  private static FsdpOptions.Builder of(ShardingStrategy strategy) {
    return FsdpOptions.builder().shardingStrategy(strategy);
  }

  private static List<FsdpOptions> variants(int ranks) {
    List<FsdpOptions> variants = new ArrayList<>();
    variants.add(of(ShardingStrategy.FULL_SHARD).build());
    variants.add(of(ShardingStrategy.FULL_SHARD).accumulateSharded(true).build());
    variants.add(of(ShardingStrategy.SHARD_GRAD_OP).mixedPrecision(BF16).build());
    variants.add(
        of(ShardingStrategy.HYBRID_SHARD).shardGroupSize(1).mixedPrecision(FP16_REDUCED).build());
    variants.add(of(ShardingStrategy.HYBRID_SHARD).shardGroupSize(ranks).build());
    return variants;
  }

  private static FsdpOptions offloaded(FsdpOptions options) {
    return options.toBuilder().cpuOffload(true).build();
  }

  /** With accumulation without reductions, clipping, frozen parameters and several types. */
  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3})
  void changesNoBitOfATraining(int ranks) {
    Runs.Recipe recipe = Runs.Recipe.adamW(3).accumulating(2).clipping(0.5);
    List<FsdpOptions> options = new ArrayList<>();
    for (FsdpOptions variant : variants(ranks)) {
      options.add(variant);
      options.add(offloaded(variant));
    }
    FsdpOptions autocast = FsdpOptions.defaults().withPrecision(Precision.BF16);
    options.add(autocast);
    options.add(offloaded(autocast));
    List<List<Runs.Outcome>> outcomes = Runs.sharded(ranks, Shapes.OddStack::new, options, recipe);
    for (int i = 0; i < options.size(); i += 2) {
      for (int rank = 0; rank < ranks; rank++) {
        Runs.Outcome plain = outcomes.get(i).get(rank);
        Runs.Outcome offloaded = outcomes.get(i + 1).get(rank);
        assertThat(offloaded.losses()).as("%s", options.get(i)).isEqualTo(plain.losses());
        assertThat(offloaded.norms()).as("%s", options.get(i)).isEqualTo(plain.norms());
        Runs.assertClose(offloaded.state(), plain.state(), 0);
      }
    }
  }

  /**
   * Bytes by side.
   *
   * @param optimizer the optimizer's state, which lies beside the shards
   * @param storages memory of shards and gradients, each piece counted once
   */
  private record Held(FsdpMemory memory, long optimizer, long storages) {}

  private static Block stack() {
    return new Models.Stack(4, 32);
  }

  /** After each of several steps. */
  private static List<Held> train(FsdpStrategy strategy, int accumulate) {
    List<Held> held = new ArrayList<>();
    try (Optimizer optimizer = ADAM.create(strategy.trainable())) {
      for (int step = 0; step < 3; step++) {
        strategy.zeroGrad();
        for (int i = 1; i <= accumulate; i++) {
          GradientSync sync = i < accumulate ? GradientSync.ACCUMULATE : GradientSync.REDUCE;
          Runs.forwardBackward(strategy, step, strategy.rank(), 1, 1, sync);
        }
        optimizer.step(0.01);
        try (var scope = NativeScope.open()) {
          Collection<Tensor> shards = strategy.trainable().values();
          List<Tensor> tensors = new ArrayList<>(shards);
          shards.stream().map(Tensor::grad).filter(Tensor::defined).forEach(tensors::add);
          held.add(
              new Held(strategy.memory(), bytes(optimizer.state().values()), storages(tensors)));
        }
      }
    }
    return held;
  }

  private static long bytes(Collection<Tensor> tensors) {
    return tensors.stream().mapToLong(each -> each.numel() * DType.of(each).bytes()).sum();
  }

  private static long storages(List<Tensor> tensors) {
    Map<Long, Long> sizes = new HashMap<>();
    for (Tensor each : tensors) {
      sizes.put(each.storage().data().address(), each.storage().nbytes());
    }
    return sizes.values().stream().mapToLong(Long::longValue).sum();
  }

  private static MemoryUse planned(
      Supplier<Block> model, int ranks, FsdpOptions options, int accumulate) {
    StepOutline step = new StepOutline(ADAM, accumulate, Precision.NONE, Activations.UNKNOWN);
    return new Planner(
            ModelOutline.of(model, options.wrapPolicy()),
            step,
            new Machines(Device.Type.CUDA, Long.MAX_VALUE, 1, ranks))
        .cost(new StrategySpec.Fsdp(ranks, options))
        .memory();
  }

  /** Without prefetch, so that what is on the device at a time does not depend on the clock. */
  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3})
  void holdsOnEachSideWhatThePlannerSays(int ranks) {
    int accumulate = ranks;
    List<FsdpOptions> options =
        variants(ranks).stream()
            .map(each -> each.toBuilder().backwardPrefetch(BackwardPrefetch.NONE).build())
            .map(TestCpuOffload::offloaded)
            .toList();
    List<List<List<Held>>> all =
        Runs.sharded(
            ranks,
            TestCpuOffload::stack,
            options,
            (model, strategy) -> train(strategy, accumulate));
    for (int i = 0; i < options.size(); i++) {
      MemoryUse planned = planned(TestCpuOffload::stack, ranks, options.get(i), accumulate);
      for (List<Held> steps : all.get(i)) {
        Held last = steps.get(steps.size() - 1);
        assertThat(last.storages()).as("storages").isEqualTo(last.memory().hostBytes());
        assertThat(last.memory().hostBytes() + last.optimizer())
            .as("host, %s, %d micro-batches", options.get(i), accumulate)
            .isCloseTo(planned.host(), withinPercentage(10));
        assertThat(last.memory().deviceBytes())
            .as("device, %s, %d micro-batches", options.get(i), accumulate)
            .isEqualTo(last.memory().transientBytes())
            .isCloseTo(planned.copies(), withinPercentage(10));
        assertThat(last.memory()).isEqualTo(steps.get(0).memory());
      }
    }
  }

  @Test
  void hasNoEffectOnTheCpu() {
    FsdpOptions options = offloaded(FsdpOptions.defaults());
    try (var strategy = new FsdpStrategy(stack(), new LocalCommunicator(), options)) {
      List<Held> held = train(strategy, 1);
      assertThat(held.get(0).memory().hostBytes()).isZero();
      assertThat(held.get(0).memory().transientBytes()).isZero();
    }
  }
}
