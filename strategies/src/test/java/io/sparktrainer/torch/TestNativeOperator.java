package io.sparktrainer.torch;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.testing.Values;
import java.util.List;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Test;

class TestNativeOperator {
  @Test
  void callsOperatorsOverLists() {
    try (var scope = NativeScope.open()) {
      Tensor a = Tensors.of(new float[] {3, 4}, 2);
      Tensor b = Tensors.of(new float[] {1}, 1);
      NativeOperator.find("aten::_foreach_add_", "Scalar")
          .call()
          .with(List.of(a, b))
          .withScalar(2)
          .run();
      assertThat(Values.of(a)).containsExactly(5, 6);
      assertThat(Values.of(b)).containsExactly(3);
      var norms =
          NativeOperator.find("aten::_foreach_norm", "Scalar")
              .call()
              .with(List.of(a, b))
              .withScalar(2)
              .with(DType.FLOAT64)
              .runForTensors();
      assertThat(norms.size()).isEqualTo(2);
      assertThat(norms.get(0).item_double()).isEqualTo(Math.sqrt(61));
      assertThat(DType.of(norms.get(1))).isEqualTo(DType.FLOAT64);
    }
  }

  @Test
  void mistakesAreExceptions() {
    assertThatThrownBy(() -> NativeOperator.find("aten::no_such_operator", ""))
        .isInstanceOf(RuntimeException.class)
        .hasMessageContaining("no_such_operator");
    try (var scope = NativeScope.open()) {
      Tensor a = Tensors.of(new float[] {3, 4}, 2);
      assertThatThrownBy(
              () ->
                  NativeOperator.find("aten::_foreach_add_", "Scalar")
                      .call()
                      .with(a)
                      .withScalar(2)
                      .run())
          .isInstanceOf(RuntimeException.class)
          .hasMessageContaining("TensorList");
    }
  }
}
