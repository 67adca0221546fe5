package io.sparktrainer.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.comm.LocalCommunicator;
import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.Dropout;
import io.sparktrainer.nn.Linear;
import io.sparktrainer.strategy.ParallelStrategy;
import io.sparktrainer.strategy.StrategySpec;
import io.sparktrainer.torch.Gradients;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Rng;
import io.sparktrainer.torch.Tensors;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.stream.IntStream;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Test;

class TestPredictor {
  @Test
  void joinsTheOutputsOfAllBatchesInEvaluationMode() {
    for (StrategySpec spec : List.of(new StrategySpec.None(0), StrategySpec.Dp.onCpu(3))) {
      try (var strategy = strategy(spec);
          var scope = NativeScope.open()) {
        Tensor output = new Predictor(strategy).predict(batches(4, 4, 1));
        assertThat(Tensors.shape(output)).containsExactly(9, 2);
        assertThat(output.requires_grad()).isFalse();
        strategy.model().eval();
        try (var off = Gradients.off()) {
          assertThat(Tensors.toFloats(output))
              .usingComparatorWithPrecision(1e-6f)
              .containsExactly(Tensors.toFloats(strategy.model().call(rows(0, 9))));
        }
      }
    }
  }

  @Test
  void handsOverOutputsOneByOneAndRestoresTheMode() {
    try (var strategy = strategy(new StrategySpec.None(0))) {
      List<Long> rows = new ArrayList<>();
      new Predictor(strategy)
          .forEach(
              batches(4, 2),
              output -> {
                assertThat(strategy.model().training()).isFalse();
                rows.add(output.size(0));
              });
      assertThat(rows).containsExactly(4L, 2L);
      assertThat(strategy.model().training()).isTrue();
      strategy.model().eval();
      new Predictor(strategy).forEach(batches(4), output -> {});
      assertThat(strategy.model().training()).isFalse();
    }
  }

  @Test
  void nothingToPredictIsRefused() {
    try (var strategy = strategy(new StrategySpec.None(0))) {
      assertThatThrownBy(() -> new Predictor(strategy).predict(batches()))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessage("Cannot predict: expected at least 1 batch, got none.");
    }
  }

  @Test
  void aDeviceThatTheProcessorDoesNotHaveIsRefused() {
    assertThatThrownBy(() -> strategy(new StrategySpec.None(1)))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage(
            "Cannot use device_id 1 on the CPU: expected 0, as the processor is one device. Leave device_id out, or train on a GPU.");
  }

  private static ParallelStrategy strategy(StrategySpec spec) {
    Rng.seed(2);
    return Strategies.create(spec, Net::new, new LocalCommunicator());
  }

  private static BatchSource batches(int... sizes) {
    return new BatchSource() {
      @Override
      public int batchesPerEpoch() {
        return sizes.length;
      }

      @Override
      public Iterator<TensorBatch> epoch(int epoch) {
        return IntStream.range(0, sizes.length)
            .mapToObj(
                i -> {
                  int start = IntStream.of(sizes).limit(i).sum();
                  Tensor x = rows(start, sizes[i]);
                  return new TensorBatch(List.of(x), x, sizes[i]);
                })
            .iterator();
      }
    };
  }

  private static Tensor rows(int start, int rows) {
    float[] values = new float[rows * 3];
    for (int i = 0; i < values.length; i++) {
      values[i] = (float) Math.sin((start * 3 + i) * 0.7);
    }
    return Tensors.of(values, rows, 3);
  }

  private static final class Net extends Block {
    private final Linear linear = child("linear", new Linear(3, 2));
    private final Dropout dropout = child("dropout", new Dropout(0.5));

    @Override
    protected Tensor forward(Tensor... inputs) {
      return dropout.call(linear.call(inputs[0]));
    }
  }
}
