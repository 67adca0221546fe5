package io.sparktrainer.strategy;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import io.sparktrainer.comm.LocalCommunicator;
import io.sparktrainer.comm.testing.RankThreads;
import io.sparktrainer.engine.BatchSource;
import io.sparktrainer.engine.EpochMetrics;
import io.sparktrainer.engine.Strategies;
import io.sparktrainer.engine.TensorBatch;
import io.sparktrainer.engine.Trainer;
import io.sparktrainer.engine.TrainingListener;
import io.sparktrainer.engine.TrainingOptions;
import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.Linear;
import io.sparktrainer.nn.Loss;
import io.sparktrainer.nn.Losses;
import io.sparktrainer.nn.Mlp;
import io.sparktrainer.optim.OptimizerSpec;
import io.sparktrainer.optim.ScheduleSpec;
import io.sparktrainer.strategy.single.SingleStrategy;
import io.sparktrainer.torch.Autocast;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Rng;
import io.sparktrainer.torch.Tensors;
import java.util.Iterator;
import java.util.List;
import java.util.stream.IntStream;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class TestMixedPrecision {
  private static final int STEPS = 20;
  private static final int ROWS = 12;

  @ParameterizedTest
  @EnumSource(names = {"BF16", "FP16"})
  void trainsCloseToFullPrecisionUnderEveryStrategy(Precision precision) {
    double full = run(new StrategySpec.None(0), Precision.NONE);
    assertThat(run(new StrategySpec.None(0), precision))
        .isCloseTo(full, within(0.02))
        .isNotEqualTo(full);
    assertThat(run(StrategySpec.Dp.onCpu(2), precision)).isCloseTo(full, within(0.02));
    RankThreads.runConnected(
        2,
        communicator -> {
          StrategySpec spec = new StrategySpec.Ddp(2, DdpOptions.defaults());
          Rng.seed(1);
          try (var strategy =
              Strategies.create(spec, TestMixedPrecision::mlp, communicator, options(precision))) {
            double loss =
                fit(strategy, Losses.CROSS_ENTROPY, batches(communicator.rank(), 2)).loss();
            assertThat(loss).isCloseTo(full, within(0.02));
          }
        });
  }

  @Test
  void computesInTheLowerTypeAndKeepsParametersOutputsAndGradientsWhole() {
    try (var scope = NativeScope.open();
        var strategy =
            new SingleStrategy(new Reporting(), new LocalCommunicator(), options(Precision.BF16))) {
      Reporting model = (Reporting) strategy.model();
      Tensor x = Tensors.of(new float[] {1, 2, 3, 4}, 1, 4);
      Loss loss = (output, target) -> Losses.MSE.of(output, target);
      Tensor value =
          strategy.forwardBackward(
              new Tensor[] {x}, Tensors.of(new float[] {1, 2}, 1, 2), loss, 1, GradientSync.REDUCE);
      assertThat(model.inside).isEqualTo(DType.BFLOAT16);
      assertThat(DType.of(value)).isEqualTo(DType.FLOAT32);
      assertThat(DType.of(strategy.predict(x))).isEqualTo(DType.FLOAT32);
      strategy
          .trainable()
          .values()
          .forEach(
              parameter -> {
                assertThat(DType.of(parameter)).isEqualTo(DType.FLOAT32);
                assertThat(DType.of(parameter.grad())).isEqualTo(DType.FLOAT32);
              });
      assertThat(Autocast.current().cpu()).isEqualTo(DType.FLOAT32);
    }
  }

  @Test
  void castsOfParametersDoNotOutliveAStep() {
    try (var scope = NativeScope.open();
        var strategy =
            new SingleStrategy(mlp(), new LocalCommunicator(), options(Precision.BF16))) {
      Tensor x = rows(0, 4);
      float[] before = Tensors.toFloats(strategy.predict(x));
      strategy
          .model()
          .parameters()
          .values()
          .forEach(p -> Tensors.overwrite(p, p.mul(Tensors.scalar(2.0))));
      assertThat(Tensors.toFloats(strategy.predict(x))).isNotEqualTo(before);
    }
  }

  @Test
  void report27AnOverflowOnOneRankSkipsTheStepOnAllAndChangesNothing() {
    RankThreads.runConnected(
        2,
        communicator -> {
          StrategySpec spec = new StrategySpec.Ddp(2, DdpOptions.defaults());
          Rng.seed(1);
          try (var strategy =
                  Strategies.create(
                      spec, TestMixedPrecision::mlp, communicator, options(Precision.FP16));
              var optimizer = OptimizerSpec.adam().build().create(strategy.trainable())) {
            int[] step = new int[1];
            // In the second step rank 1's gradients overflow.
            Loss loss =
                (output, target) -> {
                  Tensor value = Losses.CROSS_ENTROPY.of(output, target);
                  boolean overflow = step[0]++ == 1 && communicator.rank() == 1;
                  return overflow ? value.add(output.sum().mul(Tensors.scalar(1e38))) : value;
                };
            TrainingListener listener =
                new TrainingListener() {
                  @Override
                  public void onStep(io.sparktrainer.engine.StepMetrics metrics) {
                    double skipped = step[0] >= 2 ? 1 : 0;
                    assertThat(strategy.scalerState().get("scale"))
                        .isEqualTo(65_536 / (1 + skipped));
                    assertThat(Tensors.toFloats(optimizer.state().get("fc1.weight/step")))
                        .containsExactly((float) (step[0] - skipped));
                  }
                };
            Trainer trainer =
                new Trainer(
                    strategy,
                    optimizer,
                    ScheduleSpec.constant(),
                    loss,
                    new TrainingOptions(1, 1, 1.0, null, 0),
                    listener);
            EpochMetrics epoch = trainer.fit(batches(communicator.rank(), 2), null).get(0);
            assertThat(epoch.loss()).isFinite();
            strategy
                .trainable()
                .values()
                .forEach(p -> assertThat(p.isfinite().all().item_bool()).isTrue());
          }
        });
  }

  @Test
  void scalerStateGoesWithFp16Only() {
    try (var fp16 = new SingleStrategy(mlp(), new LocalCommunicator(), options(Precision.FP16));
        var bf16 = new SingleStrategy(mlp(), new LocalCommunicator(), options(Precision.BF16))) {
      assertThat(fp16.scalerState()).containsEntry("scale", 65_536.0);
      fp16.loadScalerState(java.util.Map.of("scale", 8.0, "good_steps", 3.0));
      assertThat(fp16.scalerState()).containsEntry("scale", 8.0);
      assertThat(bf16.scalerState()).isEmpty();
      assertThatThrownBy(() -> bf16.loadScalerState(fp16.scalerState()))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessageContaining("expected none without mixed_precision fp16");
    }
  }

  @Test
  void anOperationWithoutFloat16IsNamed() {
    try (var scope = NativeScope.open();
        var strategy =
            new SingleStrategy(new Quantile(), new LocalCommunicator(), options(Precision.FP16))) {
      assertThatThrownBy(() -> strategy.predict(Tensors.of(new float[] {1, 1}, 1, 2)))
          .isInstanceOf(UnsupportedOperationException.class)
          .hasMessage(
              "Cannot compute with mixed_precision fp16: expected float16 versions of all operations, got none of ndtri_cpu on this device. Use bf16, or fp16 on a GPU.");
    }
  }

  private static double run(StrategySpec spec, Precision precision) {
    Rng.seed(1);
    try (var strategy =
        Strategies.create(
            spec, TestMixedPrecision::mlp, new LocalCommunicator(), options(precision))) {
      return fit(strategy, Losses.CROSS_ENTROPY, batches(0, 1)).loss();
    }
  }

  private static EpochMetrics fit(ParallelStrategy strategy, Loss loss, BatchSource source) {
    try (var optimizer = OptimizerSpec.adam().lr(0.01).build().create(strategy.trainable())) {
      Trainer trainer =
          new Trainer(
              strategy,
              optimizer,
              ScheduleSpec.constant(),
              loss,
              new TrainingOptions(1, 1, 1.0, null, 0),
              new TrainingListener() {});
      return trainer.fit(source, null).get(0);
    }
  }

  /** Each rank's share of the same rows. */
  private static BatchSource batches(int rank, int ranks) {
    return new BatchSource() {
      @Override
      public int batchesPerEpoch() {
        return STEPS;
      }

      @Override
      public Iterator<TensorBatch> epoch(int epoch) {
        int share = ROWS / ranks;
        return IntStream.range(0, STEPS)
            .mapToObj(
                step ->
                    new TensorBatch(
                        List.of(rows(step, ROWS).narrow(0, (long) rank * share, share)),
                        target().narrow(0, (long) rank * share, share),
                        share))
            .iterator();
      }
    };
  }

  private static ComputeOptions options(Precision precision) {
    return ComputeOptions.builder().precision(precision).build();
  }

  private static Mlp mlp() {
    return new Mlp(4, List.of(16, 16), 3);
  }

  private static Tensor rows(int seed, int rows) {
    float[] values = new float[rows * 4];
    for (int i = 0; i < values.length; i++) {
      values[i] = (float) Math.sin(i * 0.7 + seed);
    }
    return Tensors.of(values, rows, 4);
  }

  private static Tensor target() {
    return Tensors.of(IntStream.range(0, ROWS).mapToLong(i -> i % 3).toArray(), ROWS);
  }

  private static final class Reporting extends Block {
    private final Linear linear = child("linear", new Linear(4, 2));
    private DType inside = DType.FLOAT32;

    @Override
    protected Tensor forward(Tensor... inputs) {
      Tensor output = linear.call(inputs[0]);
      inside = DType.of(output);
      return output;
    }
  }

  private static final class Quantile extends Block {
    private final Linear linear = child("linear", new Linear(2, 4));

    @Override
    protected Tensor forward(Tensor... inputs) {
      return torch.special_ndtri(linear.call(inputs[0]));
    }
  }
}
