package io.sparktrainer.torch;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.comm.LocalCommunicator;
import io.sparktrainer.engine.Strategies;
import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.Mlp;
import io.sparktrainer.strategy.ComputeOptions;
import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.strategy.FsdpOptions;
import io.sparktrainer.strategy.StrategySpec;
import java.util.List;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

class TestCudaTorch {
  static List<StrategySpec> strategies() {
    return List.of(
        new StrategySpec.None(0),
        StrategySpec.Dp.onDevices(List.of(0, 1)),
        new StrategySpec.Ddp(1, DdpOptions.defaults()),
        new StrategySpec.Fsdp(1, FsdpOptions.defaults()));
  }

  /** Whatever the strategy, and before libtorch could say that it does not know CUDA. */
  @ParameterizedTest
  @MethodSource("strategies")
  void withoutADeviceNoStrategyStartsOnOne(StrategySpec strategy) {
    String reason = reason();
    ComputeOptions options = ComputeOptions.builder().device(Device.cuda(0)).build();

    assertThatThrownBy(
            () ->
                Strategies.create(strategy, TestCudaTorch::model, new LocalCommunicator(), options))
        .isInstanceOf(NativeLibraryException.class)
        .hasMessage(reason);
  }

  @Test
  void withoutADeviceNothingIsCopiedToOne() {
    String reason = reason();

    assertThatThrownBy(() -> new HostToDevice(Device.cuda(0)))
        .isInstanceOf(NativeLibraryException.class)
        .hasMessage(reason);
    assertThatThrownBy(() -> CudaTorch.peakBytes(Device.cuda(0)))
        .isInstanceOf(NativeLibraryException.class)
        .hasMessage(reason);
  }

  private static String reason() {
    String reason = CudaDevices.whyUnusable();
    Assumptions.assumeTrue(
        reason != null, "skipped: this machine has a CUDA device that can be used");
    assertThat(reason).startsWith("Cannot use CUDA devices: ");
    return reason;
  }

  private static Block model() {
    return new Mlp(2, List.of(3), 2);
  }
}
