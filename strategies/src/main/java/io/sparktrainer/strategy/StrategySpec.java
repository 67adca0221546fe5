package io.sparktrainer.strategy;

/** Which parallel strategy to use, with its options. */
public sealed interface StrategySpec {
  /**
   * The name in a configuration: {@code none}, {@code dp}, {@code ddp}, {@code fsdp}, {@code auto}.
   */
  String name();

  /** How many ranks (barrier tasks) this strategy wants. */
  int workers();

  /**
   * One rank on one device, for debugging and inference, and the reference for all others.
   *
   * @param deviceId index of the device
   */
  record None(int deviceId) implements StrategySpec {
    public None {
      if (deviceId < 0) {
        throw new IllegalArgumentException(
            "Cannot use device_id " + deviceId + ": expected 0 or more.");
      }
    }

    @Override
    public String name() {
      return "none";
    }

    @Override
    public int workers() {
      return 1;
    }
  }

  /** A replica per rank, gradients averaged over the ranks while backward runs. */
  record Ddp(int workers, DdpOptions options) implements StrategySpec {
    public Ddp {
      requireWorkers("ddp", workers);
    }

    @Override
    public String name() {
      return "ddp";
    }
  }

  private static void requireWorkers(String strategy, int workers) {
    if (workers < 1) {
      throw new IllegalArgumentException(
          "Cannot use %s: expected at least 1 worker, got %d.".formatted(strategy, workers));
    }
  }
}
