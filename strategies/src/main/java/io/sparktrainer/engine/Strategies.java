package io.sparktrainer.engine;

import io.sparktrainer.comm.Communicator;
import io.sparktrainer.nn.Block;
import io.sparktrainer.strategy.ComputeOptions;
import io.sparktrainer.strategy.ParallelStrategy;
import io.sparktrainer.strategy.StrategySpec;
import io.sparktrainer.strategy.ddp.DdpStrategy;
import io.sparktrainer.strategy.dp.DpStrategy;
import io.sparktrainer.strategy.fsdp.FsdpStrategy;
import io.sparktrainer.strategy.single.SingleStrategy;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.NativeScope;
import java.util.function.Supplier;

/** Makes one rank's side of the strategy that a specification names. */
public final class Strategies {
  private Strategies() {}

  /** As the other one, in full precision and without checkpointing. */
  public static ParallelStrategy create(
      StrategySpec spec, Supplier<? extends Block> model, Communicator communicator) {
    return create(spec, model, communicator, ComputeOptions.defaults());
  }

  /**
   * All ranks call it together.
   *
   * @param model builds this rank's model; called once, by {@code dp} once per replica; the
   *     strategy takes over what it returns
   * @param communicator the group of all ranks, taken over
   * @throws IllegalArgumentException if the model, the group or the options do not suit the
   *     strategy
   * @throws IllegalStateException if the model or the options differ between ranks
   */
  public static ParallelStrategy create(
      StrategySpec spec,
      Supplier<? extends Block> model,
      Communicator communicator,
      ComputeOptions options) {
    if (spec instanceof StrategySpec.Ddp ddp) {
      return new DdpStrategy(build(model), communicator, ddp.options(), options);
    }
    if (spec instanceof StrategySpec.Dp dp) {
      return new DpStrategy(model, communicator, dp, options);
    }
    if (spec instanceof StrategySpec.Fsdp fsdp) {
      return new FsdpStrategy(build(model), communicator, fsdp.options(), options);
    }
    if (spec instanceof StrategySpec.Auto) {
      throw new IllegalArgumentException(
          "Cannot make a strategy of auto: expected the one that a plan has resolved it to.");
    }
    if (spec instanceof StrategySpec.None none) {
      requireDevice(none, options.device());
    }
    return new SingleStrategy(build(model), communicator, options);
  }

  private static void requireDevice(StrategySpec.None none, Device device) {
    if (!device.isCuda() && none.deviceId() != 0) {
      throw new IllegalArgumentException(
          "Cannot use device_id %d on the CPU: expected 0, as the processor is one device. Leave device_id out, or train on a GPU."
              .formatted(none.deviceId()));
    }
  }

  /** In a scope, so that what the parameters started as is freed when a strategy replaces it. */
  private static Block build(Supplier<? extends Block> model) {
    try (var scope = NativeScope.open()) {
      return model.get();
    }
  }
}
