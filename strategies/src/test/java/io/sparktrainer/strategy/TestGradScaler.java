package io.sparktrainer.strategy;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.comm.Communicator;
import io.sparktrainer.comm.LocalCommunicator;
import io.sparktrainer.comm.testing.RankThreads;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Test;

class TestGradScaler {
  @Test
  void startsLikePyTorch() {
    assertThat(GradScaler.Options.defaults())
        .isEqualTo(new GradScaler.Options(65_536, 2, 0.5, 2000));
  }

  @Test
  void dividesGradientsByTheScale() {
    try (var scope = NativeScope.open();
        var alone = new LocalCommunicator()) {
      Tensor parameter = parameter(65_536, -131_072);
      assertThat(scaler(5).unscale(List.of(parameter, withoutGradient()), alone)).isTrue();
      assertThat(Tensors.toFloats(parameter.grad())).containsExactly(1, -2);
    }
  }

  @Test
  void growsAfterEnoughGoodStepsAndBacksOffAfterABadOne() {
    try (var scope = NativeScope.open();
        var alone = new LocalCommunicator()) {
      GradScaler scaler = scaler(2);
      assertThat(step(scaler, alone, 1)).isEqualTo(65_536);
      assertThat(step(scaler, alone, 1)).isEqualTo(131_072);
      assertThat(step(scaler, alone, 1)).isEqualTo(131_072);
      assertThat(step(scaler, alone, Float.POSITIVE_INFINITY)).isEqualTo(65_536);
      // The count of good steps has started anew.
      assertThat(step(scaler, alone, 1)).isEqualTo(65_536);
      assertThat(step(scaler, alone, 1)).isEqualTo(131_072);
      assertThat(step(scaler, alone, Float.NaN)).isEqualTo(65_536);
    }
  }

  @Test
  void report27AnInfinityOnOneRankSkipsOnAllAlsoOnThoseWithoutGradients() {
    RankThreads.runConnected(
        3,
        communicator -> {
          try (var scope = NativeScope.open()) {
            GradScaler scaler = scaler(2);
            // Rank 2 holds an empty shard, as sharding strategies can deal out.
            Tensor own =
                communicator.rank() == 2
                    ? empty()
                    : parameter(communicator.rank() == 1 ? Float.POSITIVE_INFINITY : 1);
            assertThat(scaler.unscale(List.of(own), communicator)).isFalse();
            assertThat(scaler.scale()).isEqualTo(32_768);
            Tensor good = communicator.rank() == 2 ? empty() : parameter(1);
            assertThat(scaler.unscale(List.of(good), communicator)).isTrue();
          }
        });
  }

  @Test
  void givesUpWhenScalingCannotBeTheReason() {
    try (var scope = NativeScope.open();
        var alone = new LocalCommunicator()) {
      GradScaler scaler = new GradScaler(new GradScaler.Options(0.0001, 2, 0.5, 2));
      assertThatThrownBy(() -> step(scaler, alone, Float.NaN))
          .isInstanceOf(ArithmeticException.class)
          .hasMessageContaining("gradients are not finite even with a loss scale of 5.0E-5")
          .hasMessageContaining("(rank 0 of 1). Use mixed_precision bf16");
    }
  }

  @Test
  void continuesFromItsState() {
    try (var scope = NativeScope.open();
        var alone = new LocalCommunicator()) {
      GradScaler first = scaler(2);
      step(first, alone, Float.NaN);
      step(first, alone, 1);
      GradScaler second = scaler(2);
      second.loadState(first.state());
      assertThat(second.state()).isEqualTo(Map.of("scale", 32_768.0, "good_steps", 1.0));
      assertThat(step(second, alone, 1)).isEqualTo(65_536);
      assertThatThrownBy(() -> second.loadState(Map.of("scale", 2.0)))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessageContaining("expected scale above 0 and good_steps of at least 0")
          .hasMessageContaining("got {scale=2.0}");
    }
  }

  @Test
  void badOptionsAreRefused() {
    assertThatThrownBy(() -> new GradScaler.Options(0, 2, 0.5, 2000))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("Cannot scale the loss: expected an initial scale above 0");
    assertThatThrownBy(() -> new GradScaler.Options(1, 1, 0.5, 2000))
        .hasMessageContaining("got 1.0, 1.0, 0.5 and 2000");
    assertThatThrownBy(() -> new GradScaler.Options(1, 2, 1, 2000))
        .hasMessageContaining("backoff in (0, 1)");
    assertThatThrownBy(() -> new GradScaler.Options(1, 2, 0.5, 0))
        .hasMessageContaining("interval of at least 1 step");
  }

  private static GradScaler scaler(int growthInterval) {
    return new GradScaler(new GradScaler.Options(65_536, 2, 0.5, growthInterval));
  }

  /** The scale after a step with this gradient. */
  private static double step(GradScaler scaler, Communicator communicator, float gradient) {
    scaler.unscale(List.of(parameter(gradient)), communicator);
    return scaler.scale();
  }

  private static Tensor parameter(float... gradient) {
    Tensor parameter = Tensors.of(new float[gradient.length], gradient.length);
    Tensors.setGrad(parameter, Tensors.of(gradient, gradient.length));
    return parameter;
  }

  private static Tensor empty() {
    return parameter();
  }

  private static Tensor withoutGradient() {
    return Tensors.of(new float[2], 2);
  }
}
