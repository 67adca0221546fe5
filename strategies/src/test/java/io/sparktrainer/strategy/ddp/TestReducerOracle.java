package io.sparktrainer.strategy.ddp;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import io.sparktrainer.comm.GlooCommunicator;
import io.sparktrainer.comm.Rendezvous;
import io.sparktrainer.comm.testing.RankThreads;
import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.Cnn;
import io.sparktrainer.nn.Losses;
import io.sparktrainer.nn.Mlp;
import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.strategy.GradientSync;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Rng;
import io.sparktrainer.torch.Tensors;
import java.util.List;
import java.util.function.Supplier;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Test;

/** PyTorch's own reducer, in the same process over the same Gloo, as the oracle for ours. */
class TestReducerOracle {
  static final int STEPS = 4;
  private static final int ROWS = 4;

  @Test
  void mlpWithDefaultBuckets() {
    equalsPyTorchsReducer(2, () -> new Mlp(144, List.of(700, 500), 10), null, false);
  }

  @Test
  void mlpWithTinyBuckets() {
    equalsPyTorchsReducer(3, () -> new Mlp(144, List.of(33, 17, 9), 10), 0.001, false);
  }

  @Test
  void cnnWithBatchNorm() {
    equalsPyTorchsReducer(2, () -> new Cnn(1, 12, 12, 8, 10), 0.01, false);
  }

  @Test
  void gradientsAsBucketViews() {
    equalsPyTorchsReducer(2, () -> new Mlp(144, List.of(33, 17, 9), 10), 0.001, true);
  }

  private static void equalsPyTorchsReducer(
      int worldSize, Supplier<Block> model, Double bucketCapMb, boolean asView) {
    RankThreads.run(worldSize, rendezvous -> compare(rendezvous, model, bucketCapMb, asView));
  }

  /** One rank of the comparison with a bucket per layer. */
  static void compareTinyBuckets(Rendezvous rendezvous) {
    compare(rendezvous, () -> new Mlp(144, List.of(33, 17, 9), 10), 0.001, false);
  }

  private static void compare(
      Rendezvous rendezvous, Supplier<Block> model, Double bucketCapMb, boolean asView) {
    DdpOptions options =
        DdpOptions.builder().bucketCapMb(bucketCapMb).gradientAsBucketView(asView).build();
    Long capBytes = bucketCapMb == null ? null : (long) (bucketCapMb * (1 << 20));
    Rng.seed(3);
    Block theirs = model.get();
    Rng.seed(3);
    try (theirs;
        var ours = new DdpStrategy(model.get(), GlooCommunicator.connect(rendezvous), options);
        var oracle =
            new C10dReducer(
                rendezvous,
                "oracle",
                List.copyOf(theirs.parameters().values()),
                capBytes,
                asView)) {
      for (int step = 0; step < STEPS; step++) {
        ours.zeroGrad();
        theirs.parameters().values().forEach(Tensors::clearGrad);
        try (var scope = NativeScope.open()) {
          Tensor x = images(step, rendezvous.rank());
          Tensor y = labels(step, rendezvous.rank());
          assertThat(oracle.beforeForward()).isEqualTo(step == 1);
          oracle.backward(Losses.CROSS_ENTROPY.of(theirs.call(x), y));
          ours.forwardBackward(new Tensor[] {x}, y, Losses.CROSS_ENTROPY, 1, GradientSync.REDUCE);
        }
        assertThat(ours.bucketIndices()).isEqualTo(oracle.bucketIndices());
        assertSameGradients(ours.model(), theirs, rendezvous.worldSize());
      }
    }
  }

  private static void assertSameGradients(Block ours, Block theirs, int worldSize) {
    theirs
        .parameters()
        .forEach(
            (name, parameter) -> {
              float[] expected = Tensors.toFloats(parameter.grad());
              float[] actual = Tensors.toFloats(ours.parameters().get(name).grad());
              // Two summands commute; three may be added in another order.
              if (worldSize == 2) {
                assertThat(actual).as(name).isEqualTo(expected);
              } else {
                assertThat(actual).as(name).containsExactly(expected, within(1e-7f));
              }
            });
  }

  private static Tensor images(int step, int rank) {
    float[] values = new float[ROWS * 144];
    for (int i = 0; i < values.length; i++) {
      values[i] = (float) Math.sin(0.3 * i + 5 * step + 11 * rank);
    }
    return Tensors.of(values, ROWS, 1, 12, 12);
  }

  private static Tensor labels(int step, int rank) {
    long[] values = new long[ROWS];
    for (int i = 0; i < ROWS; i++) {
      values[i] = (i + step + 3L * rank) % 10;
    }
    return Tensors.of(values, ROWS);
  }
}
