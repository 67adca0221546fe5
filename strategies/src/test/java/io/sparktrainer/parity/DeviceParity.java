package io.sparktrainer.parity;

import io.sparktrainer.comm.Communicator;
import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.strategy.FsdpOptions;
import io.sparktrainer.strategy.StrategySpec;
import io.sparktrainer.testing.Golden;
import io.sparktrainer.torch.Device;
import java.io.IOException;
import java.util.List;
import java.util.function.Supplier;

/** The golden cases of one rank, on any device. */
public final class DeviceParity {
  /** Strategies that are the same as none in a world of one rank. */
  public static final List<StrategySpec> STRATEGIES =
      List.of(
          new StrategySpec.None(0),
          new StrategySpec.Ddp(1, DdpOptions.defaults()),
          new StrategySpec.Fsdp(1, FsdpOptions.defaults()));

  private DeviceParity() {}

  /**
   * A case under a strategy.
   *
   * @param name the case's folder
   * @param strategy not necessarily the case's own
   */
  public record Run(String name, StrategySpec strategy) {}

  /** Every case of one rank under every strategy. */
  public static List<Run> runs() {
    return Golden.cases().stream()
        .map(GoldenCase::read)
        .filter(golden -> golden.world() == 1)
        .flatMap(golden -> STRATEGIES.stream().map(spec -> new Run(golden.name(), spec)))
        .toList();
  }

  /**
   * Trains as the case says.
   *
   * @param group of one rank
   * @return how far losses and weights are from PyTorch's
   * @throws AssertionError if that is too far
   */
  public static String check(Run run, Device device, Supplier<Communicator> group)
      throws IOException {
    GoldenCase golden = GoldenCase.read(Golden.folder().resolve(run.name()));
    GoldenRun.Result result = new GoldenRun(golden, run.strategy(), device).run(group.get());
    Deviations deviations = TestGoldenParity.deviations(golden, List.of(result));
    deviations.check(golden);
    return deviations.toString();
  }
}
