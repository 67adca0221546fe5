package io.sparktrainer.nn;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import io.sparktrainer.testing.Values;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Every loss against values computed by hand. */
class TestLosses {
  private NativeScope scope;

  @BeforeEach
  void open() {
    scope = NativeScope.open();
  }

  @AfterEach
  void close() {
    scope.close();
  }

  private static double value(Loss loss, Tensor output, Tensor target) {
    Tensor value = loss.of(output, target);
    assertThat(value.dim()).isZero();
    return value.item_double();
  }

  @Test
  void crossEntropyIsTheMeanNegativeLogProbability() {
    // softmax of (0, log 3) is (1/4, 3/4)
    Tensor output = Tensors.of(new float[] {0, (float) Math.log(3), 0, (float) Math.log(3)}, 2, 2);
    double expected = (-Math.log(0.25) - Math.log(0.75)) / 2;
    assertThat(value(Losses.CROSS_ENTROPY, output, Tensors.of(new long[] {0, 1}, 2)))
        .isCloseTo(expected, within(1e-6));
    assertThat(value(Losses.CROSS_ENTROPY, output, Tensors.of(new float[] {0, 1}, 2)))
        .isCloseTo(expected, within(1e-6));
    // [n, tokens, classes]
    assertThat(
            value(Losses.CROSS_ENTROPY, output.view(1, 2, 2), Tensors.of(new long[] {0, 1}, 1, 2)))
        .isCloseTo(expected, within(1e-6));
  }

  @Test
  void binaryCrossEntropyTakesLogits() {
    // sigmoid(log 3) is 3/4
    float logit = (float) Math.log(3);
    Tensor output = Tensors.of(new float[] {logit, logit}, 2, 1);
    double expected = (-Math.log(0.75) - Math.log(0.25)) / 2;
    assertThat(value(Losses.BINARY_CROSS_ENTROPY, output, Tensors.of(new float[] {1, 0}, 2)))
        .isCloseTo(expected, within(1e-6));
    assertThat(value(Losses.BINARY_CROSS_ENTROPY, output, Tensors.of(new long[] {1, 0}, 2)))
        .isCloseTo(expected, within(1e-6));
  }

  @Test
  void regressionLossesAreMeansOverAllElements() {
    Tensor output = Tensors.of(new float[] {1, 2, 3, 8}, 2, 2);
    Tensor target = Tensors.of(new float[] {1, 2.5f, 1, 4}, 2, 2);
    // differences 0, -0.5, 2, 4
    assertThat(value(Losses.MSE, output, target)).isCloseTo(20.25 / 4, within(1e-6));
    assertThat(value(Losses.L1, output, target)).isCloseTo(6.5 / 4, within(1e-6));
    // 0.5 d^2 within 1, |d| - 0.5 beyond
    assertThat(value(Losses.HUBER, output, target))
        .isCloseTo((0 + 0.125 + 1.5 + 3.5) / 4, within(1e-6));
  }

  @Test
  void weightsCountEachRowsMean() {
    Tensor output = Tensors.of(new float[] {1, 2, 3, 8}, 2, 2);
    Tensor target = Tensors.of(new float[] {1, 2.5f, 1, 4}, 2, 2);
    Tensor weight = Tensors.of(new float[] {4, 0.5f}, 2);
    // rows' means 0.125 and 10, over 2 rows
    assertThat(Losses.MSE.weighted(output, target, weight).item_double())
        .isCloseTo((4 * 0.125 + 0.5 * 10) / 2, within(1e-6));
    Tensor scores = Tensors.of(new float[] {0, (float) Math.log(3), 0, (float) Math.log(3)}, 2, 2);
    assertThat(
            Losses.CROSS_ENTROPY
                .weighted(scores, Tensors.of(new long[] {0, 1}, 2), weight)
                .item_double())
        .isCloseTo((-4 * Math.log(0.25) - 0.5 * Math.log(0.75)) / 2, within(1e-6));
    // [n, tokens, classes]: one row of two tokens
    assertThat(
            Losses.CROSS_ENTROPY
                .weighted(
                    scores.view(1, 2, 2),
                    Tensors.of(new long[] {0, 1}, 1, 2),
                    Tensors.of(new float[] {3}, 1))
                .item_double())
        .isCloseTo(3 * (-Math.log(0.25) - Math.log(0.75)) / 2, within(1e-6));
  }

  @Test
  void weightsOfOneChangeNothing() {
    Tensor output = Tensors.of(new float[] {1, -2, 3, 8, 0.5f, 0}, 3, 2);
    Tensor ones = Tensors.of(new float[] {1, 1, 1}, 3);
    for (Losses loss : Losses.values()) {
      Tensor target =
          loss == Losses.CROSS_ENTROPY
              ? Tensors.of(new long[] {0, 1, 1}, 3)
              : Tensors.of(new float[] {1, 0, 0, 1, 1, 0}, 3, 2);
      assertThat(loss.weighted(output, target, ones).item_double())
          .isCloseTo(loss.of(output, target).item_double(), within(1e-6));
    }
  }

  @Test
  void theOutputItselfCanBeTheLoss() {
    Tensor output = Tensors.of(new float[] {1, 2, 6}, 3);
    assertThat(value(Losses.OUTPUT, output, Tensors.of(new float[0], 3, 0))).isEqualTo(3);
  }

  @Test
  void aLossThatIsOneNumberCannotBeWeighted() {
    Tensor one = Tensors.of(new float[] {1}, 1);
    Tensor weight = Tensors.of(new float[] {1, 2}, 2);
    assertThatThrownBy(() -> Losses.OUTPUT.weighted(one, one, weight))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage(
            "Cannot weight output: expected output [rows, ...] and weights [rows], got output float32[1] on cpu and weights float32[2] on cpu. Check the model's output and the weight column.");
    Loss own = (output, target) -> output.sum();
    assertThatThrownBy(() -> own.weighted(one, one, weight))
        .isInstanceOf(UnsupportedOperationException.class)
        .hasMessageContaining("Override Loss.weighted");
  }

  @Test
  void sizesOfOneDoNotMatter() {
    Tensor output = Tensors.of(new float[] {1, 2, 3}, 3, 1);
    // broadcasting [3, 1] with [3] would compare everything with everything
    assertThat(value(Losses.MSE, output, Tensors.of(new float[] {1, 2, 3}, 3))).isZero();
  }

  @Test
  void nothingIsBroadcast() {
    Tensor column = Tensors.of(new float[] {1, 2, 3}, 3, 1);
    for (Losses loss :
        new Losses[] {Losses.BINARY_CROSS_ENTROPY, Losses.MSE, Losses.L1, Losses.HUBER}) {
      for (Tensor target :
          new Tensor[] {
            Tensors.of(new float[9], 3, 3), Tensors.of(new float[1], 1), Tensors.of(new float[2], 2)
          }) {
        assertThatThrownBy(() -> loss.of(column, target))
            .isInstanceOf(IllegalArgumentException.class)
            .hasMessageContaining(
                "got output float32[3, 1] on cpu and target " + Tensors.describe(target));
      }
    }
    Tensor labels = Tensors.of(new long[3], 3, 1);
    assertThatThrownBy(() -> Losses.CROSS_ENTROPY.of(Tensors.of(new float[6], 3, 2), labels))
        .hasMessageContaining("got output float32[3, 2] on cpu and target int64[3, 1] on cpu");
  }

  @Test
  void gradientsReachTheOutput() {
    Tensor output = Tensors.of(new float[] {3}, 1).set_requires_grad(true);
    Losses.MSE.of(output, Tensors.of(new float[] {1}, 1)).backward();
    assertThat(Values.of(output.grad())).containsExactly(4);
  }

  @Test
  void mismatchingShapesAreNamed() {
    Tensor output = Tensors.of(new float[6], 2, 3);
    assertThatThrownBy(() -> Losses.CROSS_ENTROPY.of(output, Tensors.of(new long[3], 3)))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage(
            "Cannot compute cross_entropy: expected output [..., classes] with a target of the same leading sizes, got output float32[2, 3] on cpu and target int64[3] on cpu. Check the model's number of outputs and the label column.");
    assertThatThrownBy(() -> Losses.CROSS_ENTROPY.of(output.flatten(), Tensors.of(new long[6], 6)))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("got output float32[6] on cpu and target int64[6] on cpu");
    for (Losses loss :
        new Losses[] {Losses.BINARY_CROSS_ENTROPY, Losses.MSE, Losses.L1, Losses.HUBER}) {
      assertThatThrownBy(() -> loss.of(output, Tensors.of(new float[3], 3)))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessageStartingWith(
              "Cannot compute "
                  + loss.name().toLowerCase(java.util.Locale.ROOT)
                  + ": expected output and target of the same shape, got output float32[2, 3] on cpu and target float32[3] on cpu.");
    }
  }
}
