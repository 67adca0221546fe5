package io.sparktrainer.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.nn.Loss;
import io.sparktrainer.nn.Losses;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Test;

class TestTally {
  /** Counting compares shapes, too, and must not be the first to. */
  @Test
  void labelsThatDoNotFitAreNamedByTheLossAndNotCounted() {
    try (var scope = NativeScope.open()) {
      Tensor output = Tensors.of(new float[6], 3, 2);
      Tensor weight = Tensors.of(new float[] {1, 1, 1}, 3);
      for (Losses loss : new Losses[] {Losses.CROSS_ENTROPY, Losses.BINARY_CROSS_ENTROPY}) {
        Tally tally = new Tally(loss);
        Loss counting = tally.counting();
        Tensor labels =
            loss == Losses.CROSS_ENTROPY
                ? Tensors.of(new long[3], 3, 1) // [3] guesses beside it would broadcast to [3, 3]
                : Tensors.of(new float[3], 3);
        String shapes = "got output float32[3, 2] on cpu and target " + Tensors.describe(labels);
        assertThatThrownBy(() -> counting.of(output, labels))
            .isInstanceOf(IllegalArgumentException.class)
            .hasMessageContaining(shapes);
        assertThatThrownBy(() -> counting.weighted(output, labels, weight))
            .isInstanceOf(IllegalArgumentException.class)
            .hasMessageContaining(shapes);
        assertThat(tally.accuracy()).isNull();
      }
    }
  }
}
