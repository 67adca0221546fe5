package io.sparktrainer.strategy.plan;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.withinPercentage;

import io.sparktrainer.nn.CheckpointPolicy;
import io.sparktrainer.nn.Gpt;
import io.sparktrainer.nn.GptConfig;
import io.sparktrainer.nn.Losses;
import io.sparktrainer.nn.Mlp;
import io.sparktrainer.strategy.ComputeOptions;
import io.sparktrainer.strategy.WrapPolicy;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.util.List;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;

class TestActivationProbe {
  private static final int ROWS = 65_536;
  private static final int WIDTH = 64;

  @Test
  @EnabledOnOs(OS.LINUX)
  void measuresWhatForwardHolds() {
    // Per hidden layer the linear layer's output and the ReLU's, 16 MiB each.
    long expected = 3 * 2L * ROWS * WIDTH * 4;
    try (var scope = NativeScope.open();
        Mlp model = new Mlp(16, List.of(WIDTH, WIDTH, WIDTH), 1)) {
      Tensor[] inputs = {Tensors.zeros(DType.FLOAT32, Device.CPU, ROWS, 16)};
      Tensor target = Tensors.zeros(DType.FLOAT32, Device.CPU, ROWS, 1);

      long measured =
          ActivationProbe.measure(model, inputs, target, Losses.MSE, ComputeOptions.defaults());

      assertThat(measured).isCloseTo(expected, withinPercentage(10));
      assertThat(
              ActivationProbe.estimate(
                  ModelOutline.of(model, new WrapPolicy.WholeModel()), ROWS, ROWS, 4))
          .isCloseTo(expected, withinPercentage(20));
    }
  }

  /** The second computation of a block comes on top of what all blocks keep. */
  @Test
  @EnabledOnOs(OS.LINUX)
  void seesWhatCheckpointedBlocksHold() {
    int rows = 160; // much, beside the megabytes by which the JVM itself may grow meanwhile
    int tokens = 32;
    ComputeOptions checkpointed =
        ComputeOptions.builder().activationCheckpointing(CheckpointPolicy.units()).build();
    try (var scope = NativeScope.open();
        Gpt model =
            new Gpt(
                GptConfig.builder()
                    .vocab(32)
                    .context(tokens)
                    .width(128)
                    .heads(2)
                    .layers(2)
                    .build())) {
      Tensor[] inputs = {Tensors.zeros(DType.INT64, Device.CPU, rows, tokens)};
      Tensor target = Tensors.zeros(DType.INT64, Device.CPU, rows, tokens);

      long measured =
          ActivationProbe.measure(model, inputs, target, Losses.CROSS_ENTROPY, checkpointed);

      assertThat(measured)
          .isCloseTo(
              ActivationProbe.estimateCheckpointed(
                  ModelOutline.of(model, new WrapPolicy.MarkedBlocks()),
                  (long) rows * tokens,
                  (long) rows * tokens,
                  4),
              withinPercentage(20));
      assertThat(model.parameters().values()).noneMatch(each -> each.grad().defined());
    }
  }

  @Test
  void estimateCountsInputsAndOutputsOfEveryMatrix() {
    ModelOutline outline =
        new ModelOutline(
            List.of(
                new UnitOutline(
                    "",
                    List.of(
                        new ParameterOutline("weight", DType.FLOAT32, List.of(30L, 10L), true),
                        new ParameterOutline("bias", DType.FLOAT32, List.of(30L), true),
                        new ParameterOutline(
                            "conv", DType.FLOAT32, List.of(8L, 2L, 3L, 3L), true)))),
            0);

    assertThat(ActivationProbe.estimate(outline, 100, 700, 2))
        .isEqualTo(((30 + 10) * 100 + (8 + 2) * 700) * 2);
  }
}
