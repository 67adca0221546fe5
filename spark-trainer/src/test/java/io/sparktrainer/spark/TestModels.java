package io.sparktrainer.spark;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.data.ElementType;
import io.sparktrainer.nn.Block;
import io.sparktrainer.optim.OptimizerSpec;
import io.sparktrainer.spark.config.ModelSpec;
import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.strategy.StrategySpec;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

class TestModels {
  private static final ModelShape IMAGES = ModelShape.of(List.of(3L, 12L, 16L), 10);

  static List<ModelSpec> specs() {
    return List.of(
        new ModelSpec.Mlp(),
        new ModelSpec.Mlp(7, 5),
        new ModelSpec.Cnn(),
        new ModelSpec.Cnn(3, 10));
  }

  @ParameterizedTest
  @MethodSource("specs")
  void theNumberOfParametersIsKnownBeforeTheyAreMade(ModelSpec spec) {
    try (var scope = NativeScope.open();
        Block model = Models.create(spec, IMAGES, 1)) {
      double made = model.parameters().values().stream().mapToLong(Tensor::numel).sum();

      assertThat(Models.parameters(spec, IMAGES)).hasValue(made);
    }
  }

  @Test
  void theNumberOfParametersOfATabularModelIsKnownToo() {
    ModelShape table =
        new ModelShape(
            List.of(
                new ModelShape.Input("numbers", List.of(3L), ElementType.FLOAT32, List.of()),
                new ModelShape.Input(
                    "categories", List.of(2L), ElementType.INT64, List.of(7, 300))),
            4);
    for (Integer width : new Integer[] {null, 5}) {
      ModelSpec spec = new ModelSpec.Tabular(List.of(9), Map.of(), width, 0, null);
      try (var scope = NativeScope.open();
          Block model = Models.create(spec, table, 1)) {
        double made = model.parameters().values().stream().mapToLong(Tensor::numel).sum();

        assertThat(Models.parameters(spec, table)).hasValue(made);
      }
    }
  }

  @Test
  void theSameSeedGivesTheSameParameters() {
    try (var scope = NativeScope.open();
        Block one = Models.create(new ModelSpec.Mlp(4), IMAGES, 3);
        Block two = Models.create(new ModelSpec.Mlp(4), IMAGES, 3);
        Block other = Models.create(new ModelSpec.Mlp(4), IMAGES, 4)) {
      float[] weights = Tensors.toFloats(one.parameters().get("fc1.weight"));

      assertThat(weights).isEqualTo(Tensors.toFloats(two.parameters().get("fc1.weight")));
      assertThat(weights).isNotEqualTo(Tensors.toFloats(other.parameters().get("fc1.weight")));
    }
  }

  @Test
  void memoryIsCountedPerOptimizerAndStrategy() {
    StrategySpec one = new StrategySpec.None(0);
    StrategySpec ddp = new StrategySpec.Ddp(2, DdpOptions.defaults());
    StrategySpec view =
        new StrategySpec.Ddp(2, DdpOptions.builder().gradientAsBucketView(true).build());

    assertThat(ModelMemory.of(1, OptimizerSpec.adam().build(), one).total()).isEqualTo(16);
    assertThat(ModelMemory.of(1, OptimizerSpec.adam().build(), ddp).total()).isEqualTo(20);
    assertThat(ModelMemory.of(1, OptimizerSpec.adam().build(), view).total()).isEqualTo(16);
    assertThat(ModelMemory.of(1, OptimizerSpec.sgd().build(), one).total()).isEqualTo(8);
    assertThat(ModelMemory.of(1, OptimizerSpec.sgd().momentum(0.9).build(), one).total())
        .isEqualTo(12);
    assertThat(ModelMemory.of(1, OptimizerSpec.adamW().amsgrad(true).build(), one).total())
        .isEqualTo(20);
  }

  @Test
  void aModelThatDoesNotFitIsRefusedWithFigures() {
    ModelMemory memory =
        ModelMemory.of(1 << 28, OptimizerSpec.adam().build(), new StrategySpec.None(0));
    memory.requireFits(2, 8L << 30);

    assertThatThrownBy(() -> memory.requireFits(2, 7L << 30))
        .isInstanceOf(IllegalStateException.class)
        .hasMessage(
            "Cannot train the model: expected at most 7.0 GiB, which this host has free, got 8.0 GiB for 2 ranks of 4.0 GiB each (parameters 1.0, gradients 1.0, optimizer 2.0, buckets 0.0), before any activations. Make the model smaller, or use hosts with more memory.");
  }

  @Test
  void freeMemoryIsReadFromTheKernel() {
    assertThat(HostMemory.free("MemTotal: 9 kB\nMemAvailable:    2048 kB\n")).hasValue(2048 * 1024);
    assertThat(HostMemory.availableBytes()).isPositive();
  }
}
