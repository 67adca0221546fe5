package io.sparktrainer.strategy.dp;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.util.List;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Test;

class TestScatter {
  @Test
  void piecesAreCeilRowsOverReplicas() {
    assertThat(Scatter.sizes(8, 4)).containsExactly(2L, 2L, 2L, 2L);
    assertThat(Scatter.sizes(5, 4)).containsExactly(2L, 2L, 1L);
    assertThat(Scatter.sizes(5, 3)).containsExactly(2L, 2L, 1L);
    assertThat(Scatter.sizes(3, 4)).containsExactly(1L, 1L, 1L);
    assertThat(Scatter.sizes(1, 4)).containsExactly(1L);
    assertThat(Scatter.sizes(7, 1)).containsExactly(7L);
  }

  @Test
  void cutsInputsAndTargetAlikeAndSharesWhatHasNoRows() {
    try (var scope = NativeScope.open()) {
      Tensor x = Tensors.of(new float[] {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, 5, 2);
      Tensor temperature = Tensors.of(new float[] {0.5f});
      List<Scatter.Piece> pieces =
          Scatter.cut(
              new Tensor[] {x, temperature}, Tensors.of(new long[] {0, 1, 2, 3, 4}, 5), null, 4);
      assertThat(pieces).extracting(Scatter.Piece::weight).containsExactly(0.4, 0.4, 0.2);
      assertThat(Tensors.toFloats(pieces.get(1).inputs().get(0))).containsExactly(4, 5, 6, 7);
      assertThat(Tensors.toFloats(pieces.get(2).inputs().get(1))).containsExactly(0.5f);
      Tensor target = pieces.get(2).target();
      assertThat(target == null ? null : Tensors.toLongs(target)).containsExactly(4);
    }
  }

  @Test
  void tensorsOfDifferentLengthAreRefused() {
    try (var scope = NativeScope.open()) {
      Tensor x = Tensors.of(new float[6], 3, 2);
      assertThatThrownBy(
              () -> Scatter.cut(new Tensor[] {x}, Tensors.of(new long[] {0, 1}, 2), null, 2))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessageContaining("expected inputs, target and weights with the same number of rows")
          .hasMessageContaining("float32[3, 2] on cpu, int64[2] on cpu");
      assertThatThrownBy(() -> Scatter.cut(new Tensor[] {x.narrow(0, 0, 0)}, null, null, 2))
          .hasMessageContaining("at least 1");
    }
  }
}
