package io.sparktrainer.strategy.ddp;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import io.sparktrainer.comm.Communicator;
import io.sparktrainer.comm.LocalCommunicator;
import io.sparktrainer.comm.testing.RankThreads;
import io.sparktrainer.nn.BatchNorm2d;
import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.CheckpointPolicy;
import io.sparktrainer.nn.Cnn;
import io.sparktrainer.nn.Conv2d;
import io.sparktrainer.nn.Linear;
import io.sparktrainer.nn.Losses;
import io.sparktrainer.nn.Mlp;
import io.sparktrainer.strategy.ComputeOptions;
import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.strategy.GradientSync;
import io.sparktrainer.strategy.UnevenInputs;
import io.sparktrainer.torch.Gradients;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Rng;
import io.sparktrainer.torch.Tensors;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;

class TestSyncBatchNorm {
  private static final int CHANNELS = 3;
  private static final int SIDE = 4;

  @Test
  void equalsBatchNormOverTheWholeBatch() {
    compare(List.of(2, 2), Layout.CONTIGUOUS);
  }

  /** pytorch/pytorch 22192, 36382: statistics of ranks with different numbers of rows. */
  @Test
  void report15RanksWithDifferentNumbersOfRows() {
    compare(List.of(1, 4, 2), Layout.CONTIGUOUS);
  }

  /** pytorch/pytorch 74944: a rank without rows takes part. */
  @Test
  void report15ARankWithoutRows() {
    compare(List.of(3, 0, 2), Layout.CONTIGUOUS);
  }

  /** pytorch/pytorch 64039, 62967: inputs that are not contiguous. */
  @Test
  void report15InputsThatAreNotContiguous() {
    compare(List.of(2, 3), Layout.CHANNELS_LAST);
    compare(List.of(2, 3), Layout.PERMUTED);
  }

  private enum Layout {
    CONTIGUOUS,
    CHANNELS_LAST,
    PERMUTED
  }

  /** What one forward and backward pass leaves. */
  private static final class Outcome {
    private final float[] output;
    private final float[] inputGrad;
    private final Map<String, float[]> rest;

    private Outcome(float[] output, float[] inputGrad, Map<String, float[]> rest) {
      this.output = output;
      this.inputGrad = inputGrad;
      this.rest = rest;
    }
  }

  private static void compare(List<Integer> rowsByRank, Layout layout) {
    int all = rowsByRank.stream().mapToInt(Integer::intValue).sum();
    Outcome expected = run(new BatchNorm2d(CHANNELS), 0, all, Layout.CONTIGUOUS);
    List<Outcome> actual =
        RankThreads.collect(
            rowsByRank.size(),
            communicator -> {
              int first = rowsByRank.stream().limit(communicator.rank()).mapToInt(i -> i).sum();
              BatchNorm2d norm = new BatchNorm2d(CHANNELS);
              try (var sync = new SyncBatchNorm(norm, communicator)) {
                return run(norm, first, rowsByRank.get(communicator.rank()), layout);
              }
            });
    int offset = 0;
    float[] weightGrad = new float[CHANNELS];
    float[] biasGrad = new float[CHANNELS];
    for (Outcome rank : actual) {
      for (int i = 0; i < rank.output.length; i++, offset++) {
        assertThat(rank.output[i]).isCloseTo(expected.output[offset], within(1e-5f));
        assertThat(rank.inputGrad[i]).isCloseTo(expected.inputGrad[offset], within(1e-5f));
      }
      for (String name : List.of("running_mean", "running_var", "num_batches_tracked")) {
        assertThat(rank.rest.get(name))
            .as(name)
            .containsExactly(expected.rest.get(name), within(1e-6f));
        assertThat(rank.rest.get(name)).as(name).isEqualTo(actual.get(0).rest.get(name));
      }
      for (int channel = 0; channel < CHANNELS; channel++) {
        weightGrad[channel] += rank.rest.get("weight")[channel];
        biasGrad[channel] += rank.rest.get("bias")[channel];
      }
    }
    assertThat(offset).isEqualTo(expected.output.length);
    assertThat(weightGrad).containsExactly(expected.rest.get("weight"), within(1e-3f));
    assertThat(biasGrad).containsExactly(expected.rest.get("bias"), within(1e-3f));
  }

  /** Two passes, so that the running statistics are those of more than one; the second is kept. */
  private static Outcome run(BatchNorm2d norm, int firstRow, int rows, Layout layout) {
    try (norm;
        var scope = NativeScope.open();
        var on = Gradients.on()) {
      Tensors.overwrite(
          norm.parameters().get("weight"), Tensors.of(new float[] {0.5f, -1.5f, 0}, CHANNELS));
      Outcome outcome = null;
      for (int pass = 0; pass < 2; pass++) {
        norm.parameters().values().forEach(Tensors::clearGrad);
        Tensor x = rows(firstRow, rows, pass, 3, layout);
        x.set_requires_grad(true);
        Tensor output = norm.call(x);
        // The squares make the output's gradient depend on the output itself.
        output
            .mul(output)
            .add(output.mul(rows(firstRow, rows, 7, 0, Layout.CONTIGUOUS)))
            .sum()
            .backward();
        outcome =
            new Outcome(
                Tensors.toFloats(output),
                Tensors.toFloats(x.grad()),
                Map.of(
                    "weight", Tensors.toFloats(norm.parameters().get("weight").grad()),
                    "bias", Tensors.toFloats(norm.parameters().get("bias").grad()),
                    "running_mean", Tensors.toFloats(norm.buffers().get("running_mean")),
                    "running_var", Tensors.toFloats(norm.buffers().get("running_var")),
                    "num_batches_tracked",
                        Tensors.toFloats(norm.buffers().get("num_batches_tracked"))));
      }
      return outcome;
    }
  }

  /** Some rows of the whole batch. */
  private static Tensor rows(int first, int count, int salt, float offset, Layout layout) {
    int perRow = CHANNELS * SIDE * SIDE;
    float[] values = new float[count * perRow];
    for (int i = 0; i < values.length; i++) {
      values[i] = offset + (float) Math.sin(1.7 * (first * perRow + i) + salt);
    }
    Tensor x = Tensors.of(values, count, CHANNELS, SIDE, SIDE);
    return switch (layout) {
      case CONTIGUOUS -> x;
      case CHANNELS_LAST -> x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2);
      case PERMUTED -> x.permute(3, 1, 0, 2).contiguous().permute(2, 1, 3, 0);
    };
  }

  @Test
  void aWholeModelTrainsAsOnOneProcess() {
    float[] expected =
        train(
            new io.sparktrainer.strategy.single.SingleStrategy(cnn(), new LocalCommunicator()),
            0,
            6);
    RankThreads.runConnected(
        3,
        communicator -> {
          DdpOptions options = DdpOptions.builder().syncBatchNorm(true).bucketCapMb(0.01).build();
          float[] actual =
              train(new DdpStrategy(cnn(), communicator, options), 2 * communicator.rank(), 2);
          assertThat(actual).containsExactly(expected, within(2e-5f));
        });
  }

  /** Statistics are gathered again for the second computation, but counted once. */
  @Test
  void checkpointedBlocksTrainAsOnOneProcess() {
    float[] expected =
        train(
            new io.sparktrainer.strategy.single.SingleStrategy(stages(), new LocalCommunicator()),
            0,
            6);
    for (Set<String> chosen : List.of(Set.of("one", "two"), Set.of("one.norm"), Set.of("one"))) {
      ComputeOptions compute =
          ComputeOptions.builder().activationCheckpointing(CheckpointPolicy.named(chosen)).build();
      RankThreads.runConnected(
          3,
          communicator -> {
            DdpOptions options = DdpOptions.builder().syncBatchNorm(true).bucketCapMb(0.01).build();
            float[] actual =
                train(
                    new DdpStrategy(stages(), communicator, options, compute),
                    2 * communicator.rank(),
                    2);
            assertThat(actual).as("%s", chosen).containsExactly(expected, within(2e-5f));
          });
    }
  }

  private static Block stages() {
    Rng.seed(6);
    return new Stages();
  }

  private static final class Stages extends Block {
    private final Stage one = child("one", new Stage(1, 4));
    private final Stage two = child("two", new Stage(4, 4));
    private final Linear head = child("head", new Linear(4 * 64, 5));

    @Override
    protected Tensor forward(Tensor... inputs) {
      return head.call(two.call(one.call(inputs[0])).flatten(1, -1));
    }
  }

  private static final class Stage extends Block {
    private final Conv2d conv;
    private final BatchNorm2d norm;

    private Stage(int in, int out) {
      this.conv = child("conv", new Conv2d(in, out, 3, 1, 1));
      this.norm = child("norm", new BatchNorm2d(out));
    }

    @Override
    protected Tensor forward(Tensor... inputs) {
      return torch.tanh(norm.call(conv.call(inputs[0])));
    }
  }

  private static Block cnn() {
    Rng.seed(5);
    return new Cnn(1, 8, 8, 8, 5);
  }

  private static float[] train(
      io.sparktrainer.strategy.ParallelStrategy strategy, int first, int rows) {
    try (strategy;
        var optimizer =
            io.sparktrainer.optim.OptimizerSpec.sgd()
                .lr(0.05)
                .momentum(0.9)
                .build()
                .create(strategy.trainable())) {
      for (int step = 0; step < 8; step++) {
        strategy.zeroGrad();
        try (var scope = NativeScope.open()) {
          float[] x = new float[rows * 64];
          long[] y = new long[rows];
          for (int i = 0; i < x.length; i++) {
            x[i] = (float) Math.sin(0.9 * (first * 64 + i) + step);
          }
          for (int i = 0; i < rows; i++) {
            y[i] = ((long) first + i + step) % 5;
          }
          strategy.forwardBackward(
              new Tensor[] {Tensors.of(x, rows, 1, 8, 8)},
              Tensors.of(y, rows),
              Losses.CROSS_ENTROPY,
              1,
              GradientSync.REDUCE);
        }
        optimizer.step(0.05);
      }
      return TestDdpStrategy.weights(strategy.model());
    }
  }

  @Test
  void evaluationUsesRunningStatisticsWithoutACollective() {
    RankThreads.runConnected(
        2,
        communicator -> {
          BatchNorm2d norm = new BatchNorm2d(CHANNELS);
          try (norm;
              var sync = new SyncBatchNorm(norm, communicator);
              var scope = NativeScope.open()) {
            norm.eval();
            if (communicator.rank() == 0) {
              Tensor x = rows(0, 2, 0, 0, Layout.CONTIGUOUS);
              assertThat(Tensors.toFloats(norm.call(x)))
                  .containsExactly(Tensors.toFloats(x), within(2e-4f));
            }
          }
        });
  }

  @Test
  void oneValuePerChannelIsRefusedOnEveryRank() {
    RankThreads.runConnected(
        2,
        communicator -> {
          BatchNorm2d norm = new BatchNorm2d(1);
          try (norm;
              var sync = new SyncBatchNorm(norm, communicator);
              var scope = NativeScope.open()) {
            Tensor x =
                Tensors.of(new float[1 - communicator.rank()], 1 - communicator.rank(), 1, 1, 1);
            assertThatThrownBy(() -> norm.call(x))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining(
                    "expected at least 2 values per channel over all ranks, got 1");
          }
        });
  }

  @Test
  void aModelWithoutBatchNormIsRefused() {
    try (Block model = new Mlp(3, List.of(), 2);
        Communicator alone = new LocalCommunicator()) {
      assertThatThrownBy(() -> new SyncBatchNorm(model, alone))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessageContaining("expected a batch normalisation in the model, got Mlp");
    }
  }

  @Test
  void isRefusedTogetherWithUnevenInputs() {
    var options =
        DdpOptions.builder().syncBatchNorm(true).unevenInputs(UnevenInputs.DIVIDE_BY_WORLD);
    assertThatThrownBy(options::build)
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("Cannot use sync_batch_norm with uneven_inputs divide_by_world");
  }
}
