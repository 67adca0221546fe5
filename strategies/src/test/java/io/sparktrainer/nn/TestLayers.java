package io.sparktrainer.nn;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import io.sparktrainer.testing.Values;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Rng;
import io.sparktrainer.torch.Tensors;
import java.util.Arrays;
import java.util.List;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class TestLayers {
  private NativeScope scope;

  @BeforeEach
  void open() {
    scope = NativeScope.open();
    Rng.seed(1);
  }

  @AfterEach
  void close() {
    scope.close();
  }

  @Test
  void linearMultipliesByTheTransposedWeight() {
    try (Linear linear = new Linear(2, 1);
        Linear plain = Linear.withoutBias(2, 1)) {
      Tensors.overwrite(linear.weight(), Tensors.of(new float[] {2, 3}, 1, 2));
      Tensors.overwrite(plain.weight(), Tensors.of(new float[] {2, 3}, 1, 2));
      Tensors.overwrite(linear.parameters().get("bias"), Tensors.of(new float[] {7}, 1));
      Tensor input = Tensors.of(new float[] {1, 10}, 1, 2);
      assertThat(Values.of(linear.call(input))).containsExactly(39);
      assertThat(Values.of(plain.call(input))).containsExactly(32);
    }
  }

  @Test
  void convolutionsHaveStrideAndPadding() {
    Tensor input = Tensors.of(new float[] {1, 2, 3, 4, 5, 6, 7, 8, 9}, 1, 1, 3, 3);
    try (Conv2d valid = new Conv2d(1, 1, 3);
        Conv2d strided = new Conv2d(1, 1, 3, 2, 1)) {
      for (Conv2d conv : List.of(valid, strided)) {
        conv.parameters().get("weight").detach().fill_(Tensors.scalar(1.0));
        conv.parameters().get("bias").detach().fill_(Tensors.scalar(0.5));
      }
      assertThat(Values.of(valid.call(input))).containsExactly(45.5);
      assertThat(Values.of(strided.call(input))).containsExactly(12.5, 16.5, 24.5, 28.5);
    }
  }

  /** libtorch's allocator gives freed memory out again as it is. */
  @Test
  void gradientsDoNotDependOnWhatMemoryHeldBefore() {
    int[][] channels = {{2, 8}, {3, 5}, {8, 16}, {12, 1}, {16, 8}, {16, 32}, {24, 24}, {32, 17}};
    for (int[] inOut : channels) {
      for (int size : new int[] {4, 14}) {
        for (int round = 0; round < 5; round++) {
          leaveNaNsInFreedMemory();
          try (var inner = NativeScope.open();
              Conv2d conv = new Conv2d(inOut[0], inOut[1], 3, 1, 1)) {
            Tensor input = torch.ones(2, inOut[0], size, size).set_requires_grad(true);
            Tensor output = conv.call(input);
            assertThat(output.is_contiguous()).isTrue();
            output.mul(output).sum().backward();
            assertThat(Arrays.stream(Values.of(input.grad())))
                .as("%d to %d channels of %dx%d", inOut[0], inOut[1], size, size)
                .allMatch(Double::isFinite);
          }
        }
      }
    }
  }

  private static void leaveNaNsInFreedMemory() {
    try (var inner = NativeScope.open()) {
      for (int i = 0; i < 27; i++) {
        torch.full(new long[] {64L << (i % 9)}, Tensors.scalar(Double.NaN));
      }
    }
  }

  @Test
  void firstValuesAreBoundedByTheFanIn() {
    Tensor weight = Init.weight(8, 4, 3, 3);
    double bound = 1 / Math.sqrt(36);
    assertThat(Arrays.stream(Values.of(weight))).allMatch(value -> Math.abs(value) <= bound);
    double deviation =
        Math.sqrt(Arrays.stream(Values.of(weight)).map(value -> value * value).average().orElse(0));
    assertThat(deviation).isCloseTo(bound / Math.sqrt(3), within(0.1 * bound));
    assertThat(Values.of(Init.bias(8, 4, 3, 3))).hasSize(8);
    double[] normal = Values.of(Init.normal(0.02, 10_000));
    assertThat(Math.sqrt(Arrays.stream(normal).map(value -> value * value).average().orElse(0)))
        .isCloseTo(0.02, within(1e-3));
  }

  @Test
  void dropoutScalesWhatItKeeps() {
    Tensor input = torch.ones(10_000).set_requires_grad(true);
    try (Dropout dropout = new Dropout(0.25)) {
      Tensor output = dropout.call(input);
      double[] values = Values.of(output);
      long kept = Arrays.stream(values).filter(value -> value != 0).count();
      assertThat(kept / 10_000.0).isCloseTo(0.75, within(0.03));
      assertThat(Arrays.stream(values).filter(value -> value != 0).toArray())
          .containsOnly(new double[] {1 / 0.75}, within(1e-6));
      output.sum().backward();
      assertThat(Values.of(input.grad())).containsExactly(values);
      Rng.seed(1);
      assertThat(Values.of(dropout.call(input))).containsExactly(values);
      dropout.eval();
      assertThat(Values.of(dropout.call(input))).containsOnly(1);
    }
    assertThatThrownBy(() -> new Dropout(1))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("Cannot make dropout: expected a probability in [0, 1), got 1.0.");
  }

  @Test
  void batchNormKeepsRunningStatistics() {
    Tensor input = Tensors.of(new float[] {1, 3, 5, 7}, 4, 1, 1, 1);
    try (BatchNorm2d norm = new BatchNorm2d(1)) {
      double[] output = Values.of(norm.call(input));
      // mean 4, biased variance 5
      assertThat(output[0]).isCloseTo(-3 / Math.sqrt(5 + 1e-5), within(1e-5));
      // momentum 0.1; the running variance is the unbiased one, 20/3
      assertThat(Values.of(norm.buffers().get("running_mean"))[0]).isCloseTo(0.4, within(1e-6));
      assertThat(Values.of(norm.buffers().get("running_var"))[0])
          .isCloseTo(0.9 + 2.0 / 3, within(1e-6));
      assertThat(Values.of(norm.buffers().get("num_batches_tracked"))).containsExactly(1);
      norm.eval();
      assertThat(Values.of(norm.call(input))[0])
          .isCloseTo((1 - 0.4) / Math.sqrt(0.9 + 2.0 / 3 + 1e-5), within(1e-5));
      assertThat(Values.of(norm.buffers().get("num_batches_tracked"))).containsExactly(1);
    }
  }

  @Test
  void aRowAloneIsNormalisedByTheRunningStatistics() {
    try (BatchNorm1d norm = new BatchNorm1d(2)) {
      double[] output = Values.of(norm.call(Tensors.of(new float[] {3, -2}, 1, 2)));
      assertThat(output[0]).isCloseTo(3, within(1e-4));
      assertThat(output[1]).isCloseTo(-2, within(1e-4));
      assertThat(Values.of(norm.buffers().get("running_var"))).containsExactly(1, 1);
      assertThat(Values.of(norm.buffers().get("num_batches_tracked"))).containsExactly(0);
    }
  }

  @Test
  void layerNormNormalisesTheLastDimension() {
    try (LayerNorm norm = new LayerNorm(2)) {
      double[] output = Values.of(norm.call(Tensors.of(new float[] {1, 3, 10, 10}, 2, 2)));
      assertThat(output[0]).isCloseTo(-1 / Math.sqrt(1 + 1e-5), within(1e-6));
      assertThat(output[3]).isZero();
    }
  }

  @Test
  void embeddingsLookRowsUp() {
    try (Embedding embedding = new Embedding(3, 2)) {
      Tensors.overwrite(embedding.weight(), Tensors.of(new float[] {0, 1, 2, 3, 4, 5}, 3, 2));
      Tensor output = embedding.call(Tensors.of(new long[] {2, 0}, 1, 2));
      assertThat(Tensors.shape(output)).containsExactly(1, 2, 2);
      assertThat(Values.of(output)).containsExactly(4, 5, 0, 1);
      assertThat(Values.of(embedding.call(Tensors.of(new float[] {1}, 1)))).containsExactly(2, 3);
      assertThatThrownBy(() -> embedding.call(Tensors.of(new long[] {3}, 1)))
          .isInstanceOf(RuntimeException.class)
          .hasMessageContaining("index out of range");
    }
  }

  @Test
  void readyModelsCheckTheirSizes() {
    assertThatThrownBy(() -> new Mlp(0, List.of(), 1))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("Cannot make an mlp: expected widths of at least 1, got 0 to 1.");
    assertThatThrownBy(() -> new Cnn(1, 7, 28, 8, 10))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("got 1 channels, 8 filters, 10 outputs and 7x28 pixels");
    try (Mlp mlp = new Mlp(6, List.of(4), 2);
        Cnn cnn = new Cnn(1, 9, 8, 2, 3)) {
      assertThat(Tensors.shape(mlp.call(torch.ones(5, 2, 3)))).containsExactly(5, 2);
      assertThat(Tensors.shape(cnn.call(torch.ones(5, 1, 9, 8)))).containsExactly(5, 3);
      assertThat(mlp.parameters().keySet())
          .containsExactly("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias");
      assertThat(DType.of(mlp.parameters().get("fc1.weight"))).isEqualTo(DType.FLOAT32);
    }
  }
}
