package io.sparktrainer.torch;

import static org.assertj.core.api.Assertions.assertThat;

import io.sparktrainer.nn.Cnn;
import io.sparktrainer.nn.Linear;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Test;

class TestShapesOnly {
  @Test
  void tensorsHaveShapesAndTypesButNoMemory() {
    try (var scope = NativeScope.open();
        var shapes = ShapesOnly.open()) {
      for (Tensor tensor :
          new Tensor[] {
            Tensors.empty(DType.FLOAT32, Device.CPU, 1 << 20, 1 << 20),
            Tensors.zeros(DType.INT64, Device.cuda(3), 2),
            Tensors.of(new float[] {1, 2}, 2),
            Tensors.of(new long[] {1, 2}, 2),
          }) {
        assertThat(tensor.is_meta()).isTrue();
      }
      assertThat(Tensors.empty(DType.BFLOAT16, Device.CPU, 1 << 20, 1 << 20).numel())
          .isEqualTo(1L << 40);
    }
  }

  @Test
  void everyLayerIsCovered() {
    try (var scope = NativeScope.open();
        var shapes = ShapesOnly.open();
        var cnn = new Cnn(1, 28, 28, 16, 10)) {
      assertThat(cnn.state().values()).isNotEmpty().allMatch(Tensor::is_meta);
      assertThat(Tensors.shape(cnn.state().get("fc1.weight"))).containsExactly(64, 1568);
    }
  }

  @Test
  void closingEndsTheInnermostOnly() {
    try (var scope = NativeScope.open();
        var outer = ShapesOnly.open()) {
      ShapesOnly.open().close();
      assertThat(Tensors.zeros(DType.FLOAT32, Device.CPU, 2).is_meta()).isTrue();
    }
    try (var scope = NativeScope.open()) {
      assertThat(Tensors.zeros(DType.FLOAT32, Device.CPU, 2).is_meta()).isFalse();
    }
  }

  @Test
  void randomNumbersAreNotUsedUp() {
    Rng.seed(11);
    try (var shapes = ShapesOnly.open();
        var unused = new Linear(4, 4)) {
      assertThat(unused.weight().is_meta()).isTrue();
    }
    try (var scope = NativeScope.open();
        var after = new Linear(2, 2)) {
      float[] drawn = Tensors.toFloats(after.weight());
      Rng.seed(11);
      try (var fresh = new Linear(2, 2)) {
        assertThat(drawn).containsExactly(Tensors.toFloats(fresh.weight()));
      }
    }
  }
}
