package io.sparktrainer.spark.config;

import static java.util.Objects.requireNonNull;

import io.sparktrainer.strategy.StrategySpec;

/**
 * Section {@code device}.
 *
 * @param type kind of device; {@code auto} by default
 * @param strategy how the ranks train together; {@code none} by default
 * @param timeoutSeconds how long a rank waits for its peers, when they connect and in each
 *     collective; 300 by default
 */
public record DeviceConfig(DeviceType type, StrategySpec strategy, int timeoutSeconds) {
  static final int DEFAULT_TIMEOUT_SECONDS = 300;

  public DeviceConfig {
    requireNonNull(type, "type");
    requireNonNull(strategy, "strategy");
    if (timeoutSeconds < 1) {
      throw new IllegalArgumentException(
          "Cannot use timeout_seconds " + timeoutSeconds + ": expected at least 1 s.");
    }
  }

  static DeviceConfig defaults() {
    return new DeviceConfig(DeviceType.AUTO, new StrategySpec.None(0), DEFAULT_TIMEOUT_SECONDS);
  }
}
