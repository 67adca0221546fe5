package io.sparktrainer.strategy.plan;

import static org.assertj.core.api.Assertions.assertThat;

import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.Cnn;
import io.sparktrainer.nn.Gpt;
import io.sparktrainer.nn.GptConfig;
import io.sparktrainer.nn.Init;
import io.sparktrainer.nn.Linear;
import io.sparktrainer.nn.Mlp;
import io.sparktrainer.optim.OptimizerSpec;
import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.strategy.FsdpOptions;
import io.sparktrainer.strategy.StrategySpec;
import io.sparktrainer.strategy.WrapPolicy;
import io.sparktrainer.torch.Device;
import java.util.List;
import java.util.Set;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Test;

class TestModelOutline {
  @Test
  void modelsAreDescribedWithoutTheirValues() {
    // 2 x 10^12 parameters: 8 TB.
    ModelOutline outline =
        ModelOutline.of(
            () -> new Mlp(1_000_000, List.of(1_000_000), 1_000_000), new WrapPolicy.WholeModel());

    assertThat(outline.numel()).isEqualTo(2_000_002_000_000L);
    assertThat(outline.parameterBytes()).isEqualTo(8_000_008_000_000L);
    assertThat(outline.parameters())
        .extracting(ParameterOutline::name)
        .containsExactly("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias");
    assertThat(outline.parameters().get(0).shape()).containsExactly(1_000_000L, 1_000_000L);
  }

  @Test
  void gptOf70BillionParametersIsPlannedWithoutMemoryForIt() {
    GptConfig config =
        GptConfig.builder().vocab(128_000).context(8192).width(8192).heads(64).layers(84).build();

    ModelOutline outline = ModelOutline.of(() -> new Gpt(config), new WrapPolicy.MarkedBlocks());

    assertThat(outline.numel()).isBetween(69_000_000_000L, 71_000_000_000L);
    assertThat(outline.units()).hasSize(85);
    // Attention 4 w^2 + 4 w, the two linear layers 8 w^2 + 5 w, the norms 4 w.
    long width = 8192;
    assertThat(outline.units().get(1).name()).isEqualTo("blocks.0");
    assertThat(outline.units().get(1).numel()).isEqualTo(12 * width * width + 13 * width);

    StepOutline step = StepOutline.of(OptimizerSpec.adamW().build(), Activations.UNKNOWN);
    Machines machines = new Machines(Device.Type.CUDA, 80L << 30, 8, 64);
    Plan plan =
        new Planner(outline, step, machines)
            .plan(new StrategySpec.Auto(64, DdpOptions.defaults(), FsdpOptions.defaults()));
    assertThat(plan.resolve()).isEqualTo(new StrategySpec.Fsdp(64, FsdpOptions.defaults()));
    assertThat(plan.toString())
        .contains("85, the largest 2.16 billion parameters (outside blocks)");
  }

  @Test
  void outlineEqualsThatOfTheRealModel() {
    try (Cnn real = new Cnn(1, 28, 28, 16, 10)) {
      ModelOutline expected = ModelOutline.of(real, new WrapPolicy.ClassNames(Set.of("Linear")));

      assertThat(
              ModelOutline.of(
                  () -> new Cnn(1, 28, 28, 16, 10), new WrapPolicy.ClassNames(Set.of("Linear"))))
          .isEqualTo(expected);
      // Two batch norms of 16 and 32 channels: mean, variance, and an int64 counter each.
      assertThat(expected.bufferBytes()).isEqualTo((16 + 32) * 2 * 4 + 2 * 8);
    }
  }

  @Test
  void innerUnitsTakeTheirParametersAndTheRestIsOneUnit() {
    ModelOutline outline = ModelOutline.of(Nested::new, new WrapPolicy.ClassNames(Set.of("Mlp")));

    assertThat(outline.units())
        .extracting(UnitOutline::name, UnitOutline::numel)
        .containsExactly(
            org.assertj.core.groups.Tuple.tuple("", 3L),
            org.assertj.core.groups.Tuple.tuple("a", 6L),
            org.assertj.core.groups.Tuple.tuple("b", 12L));
  }

  @Test
  void tiedParametersCountOnceAndFrozenOnesHaveNoGradient() {
    ModelOutline outline = ModelOutline.of(Tied::new, new WrapPolicy.WholeModel());

    assertThat(outline.numel()).isEqualTo(4 + 4);
    assertThat(outline.trainableBytes()).isEqualTo(4 * 4);
  }

  private static final class Nested extends Block {
    Nested() {
      parameter("scale", Init.constant(1, 3));
      child("a", new Mlp(2, List.of(), 2));
      child("b", new Mlp(3, List.of(), 3));
    }

    @Override
    protected Tensor forward(Tensor... inputs) {
      return inputs[0];
    }
  }

  private static final class Tied extends Block {
    Tied() {
      Linear first = child("first", Linear.withoutBias(2, 2));
      tie("again", first.weight());
      parameter("frozen", Init.constant(1, 2, 2)).set_requires_grad(false);
    }

    @Override
    protected Tensor forward(Tensor... inputs) {
      return inputs[0];
    }
  }
}
