package io.sparktrainer.strategy.plan;

/**
 * What the decision tree asks about.
 *
 * @param parameters number of parameters of the model
 * @param bytesOnOneDevice predicted peak of training on one device
 * @param deviceBytes memory of one device that one rank may use
 * @param hosts machines
 * @param ranks ranks, one per device, on all hosts together
 * @param graph whether every step uses the same parameters in the same way
 */
public record TreeFacts(
    long parameters, long bytesOnOneDevice, long deviceBytes, int hosts, int ranks, Graph graph) {
  /** Whether the autograd graph changes from step to step. */
  public enum Graph {
    DYNAMIC,
    STATIC
  }

  public TreeFacts {
    if (parameters < 1 || bytesOnOneDevice < 1 || deviceBytes < 1) {
      throw new IllegalArgumentException(
          "Cannot choose a strategy: expected at least 1 parameter and 1 byte, got %d parameters, %d bytes needed and %d bytes of device memory."
              .formatted(parameters, bytesOnOneDevice, deviceBytes));
    }
    if (hosts < 1 || ranks < hosts) {
      throw new IllegalArgumentException(
          "Cannot choose a strategy: expected at least 1 host and at least one rank on each, got %d hosts and %d ranks."
              .formatted(hosts, ranks));
    }
  }
}
