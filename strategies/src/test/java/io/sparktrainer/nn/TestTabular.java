package io.sparktrainer.nn;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.testing.Values;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.util.List;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class TestTabular {
  private NativeScope scope;

  @BeforeEach
  void open() {
    scope = NativeScope.open();
  }

  @AfterEach
  void close() {
    scope.close();
  }

  @Test
  void embeddingsAndNumbersMeetInTheLinearLayers() {
    List<Tabular.Columns> columns =
        List.of(new Tabular.Numbers(2), new Tabular.Categories(List.of(3, 200), null));
    Tensor numbers = Tensors.of(new float[] {1, 2, 3, 4, 5, 9}, 3, 2);
    Tensor categories = Tensors.of(new long[] {0, 199, 2, 7, 1, 0}, 3, 2);
    try (Tabular model = new Tabular(columns, List.of(8), 0, 4)) {
      assertThat(Tabular.values(columns)).isEqualTo(2 + 2 + 50);
      assertThat(model.parameters().keySet())
          .containsExactly(
              "norm0.weight",
              "norm0.bias",
              "embedding0.weight",
              "embedding1.weight",
              "mlp.fc1.weight",
              "mlp.fc1.bias",
              "mlp.fc2.weight",
              "mlp.fc2.bias")
          .isNotEmpty();
      Tensor output = model.call(numbers, categories);
      assertThat(Tensors.shape(output)).containsExactly(3, 4);
      output.sum().backward();
      // Only the rows that were looked up learn.
      double[] gradient = Values.of(model.parameters().get("embedding1.weight").grad());
      assertThat(gradient[1 * 50]).isZero();
      assertThat(gradient[7 * 50]).isNotZero();
    }
  }

  @Test
  void otherInputsThanItsOwnAreRefused() {
    try (Tabular model =
        new Tabular(List.of(new Tabular.Categories(List.of(3), 2)), List.of(), 0, 1)) {
      Tensor input = Tensors.of(new long[] {0, 1}, 1, 2);
      assertThatThrownBy(() -> model.call(input, input))
          .hasMessage("Cannot run a tabular model: expected 1 inputs, got 2.");
      assertThatThrownBy(() -> model.call(input))
          .hasMessageContaining("expected input 0 as [n, 1], got int64[1, 2]");
    }
  }

  @Test
  void columnsWithoutSizeAreRefused() {
    assertThatThrownBy(() -> new Tabular.Numbers(0))
        .hasMessage("Cannot use columns of numbers: expected at least 1, got 0.");
    assertThatThrownBy(() -> new Tabular.Categories(List.of(3, 0), null))
        .hasMessage(
            "Cannot use columns of categories: expected at least one, of at least 1 category and with embeddings of at least 1 value, got [3, 0] and width auto.");
    assertThatThrownBy(() -> new Tabular.Categories(List.of(3), 0))
        .hasMessageEndingWith("got [3] and width 0.");
  }
}
