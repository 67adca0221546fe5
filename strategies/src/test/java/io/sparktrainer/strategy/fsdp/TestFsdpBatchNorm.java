package io.sparktrainer.strategy.fsdp;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import io.sparktrainer.comm.Communicator;
import io.sparktrainer.comm.testing.RankThreads;
import io.sparktrainer.engine.Strategies;
import io.sparktrainer.nn.Cnn;
import io.sparktrainer.nn.Losses;
import io.sparktrainer.optim.Optimizer;
import io.sparktrainer.optim.OptimizerSpec;
import io.sparktrainer.strategy.ComputeOptions;
import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.strategy.FsdpOptions;
import io.sparktrainer.strategy.GradientSync;
import io.sparktrainer.strategy.MixedPrecision;
import io.sparktrainer.strategy.ParallelStrategy;
import io.sparktrainer.strategy.Precision;
import io.sparktrainer.strategy.ShardingStrategy;
import io.sparktrainer.strategy.StrategySpec;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Rng;
import io.sparktrainer.torch.Tensors;
import java.util.List;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Batch normalisation computes in the model's own type, whatever types fsdp is given. */
class TestFsdpBatchNorm {
  static final int STEPS = 6;

  static List<FsdpOptions> options() {
    return List.of(
        FsdpOptions.defaults(),
        FsdpOptions.builder().shardingStrategy(ShardingStrategy.NO_SHARD).build(),
        FsdpOptions.builder()
            .mixedPrecision(new MixedPrecision(DType.BFLOAT16, DType.BFLOAT16, DType.BFLOAT16))
            .build());
  }

  @ParameterizedTest
  @MethodSource("options")
  void trainsInBfloat16AsDdpDoes(FsdpOptions options) {
    double expected = train(new StrategySpec.Ddp(2, DdpOptions.defaults()));
    assertThat(train(new StrategySpec.Fsdp(2, options))).isCloseTo(expected, within(0.05));
  }

  private static double train(StrategySpec spec) {
    return RankThreads.collect(2, group -> train(spec, group)).get(0);
  }

  /** Returns the last step's loss of this rank. */
  static double train(StrategySpec spec, Communicator group) {
    ComputeOptions compute = ComputeOptions.builder().precision(Precision.BF16).build();
    Rng.seed(1);
    try (ParallelStrategy strategy =
            Strategies.create(spec, () -> new Cnn(1, 8, 8, 4, 3), group, compute);
        Optimizer optimizer = OptimizerSpec.adamW().build().create(strategy.trainable())) {
      double loss = 0;
      for (int step = 0; step < STEPS; step++) {
        loss = step(strategy, optimizer, step);
      }
      strategy
          .model()
          .buffers()
          .forEach(
              (name, buffer) ->
                  assertThat(DType.of(buffer)).as(name).isIn(DType.FLOAT32, DType.INT64));
      return loss;
    }
  }

  private static double step(ParallelStrategy strategy, Optimizer optimizer, int step) {
    try (var scope = NativeScope.open()) {
      strategy.zeroGrad();
      float[] pixels = new float[8 * 64];
      for (int i = 0; i < pixels.length; i++) {
        pixels[i] = (float) Math.sin(0.37 * i + step + 10 * strategy.rank());
      }
      Tensor images = Tensors.of(pixels, 8, 1, 8, 8);
      Tensor labels = Tensors.of(new long[] {0, 1, 2, 0, 1, 2, 0, 1}, 8);
      double loss =
          strategy
              .forwardBackward(
                  new Tensor[] {images}, labels, Losses.CROSS_ENTROPY, 1, GradientSync.REDUCE)
              .item_double();
      optimizer.step(1e-2);
      return loss;
    }
  }
}
