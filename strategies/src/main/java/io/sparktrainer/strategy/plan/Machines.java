package io.sparktrainer.strategy.plan;

import io.sparktrainer.torch.Device;

/**
 * Where a training runs.
 *
 * @param type kind of device; on the CPU, host and device are one memory
 * @param deviceBytes memory that one rank may use where all {@code ranks} are there: on the CPU,
 *     its share of the host's
 * @param hosts machines
 * @param ranks ranks on all hosts together, one per device, equally many on each host
 */
public record Machines(Device.Type type, long deviceBytes, int hosts, int ranks) {
  public Machines {
    if (deviceBytes < 1) {
      throw new IllegalArgumentException(
          "Cannot plan: expected at least 1 byte of device memory, got " + deviceBytes + ".");
    }
    if (hosts < 1 || ranks < 1 || ranks % hosts != 0) {
      throw new IllegalArgumentException(
          "Cannot plan: expected at least one rank on each host and equally many, got %d ranks on %d hosts."
              .formatted(ranks, hosts));
    }
  }

  /**
   * Memory for each of {@code count} ranks. On the CPU, those of one host share what it has, so
   * that one rank alone has that of all.
   */
  long bytesPerRank(int count) {
    if (type == Device.Type.CUDA) {
      return deviceBytes;
    }
    double host = (double) deviceBytes * ranksPerHost();
    return (long) Math.min(Long.MAX_VALUE, host / Math.min(count, ranksPerHost()));
  }

  int ranksPerHost() {
    return ranks / hosts;
  }
}
