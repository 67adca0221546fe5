package io.sparktrainer.comm;

/**
 * What a rank needs to find its peers: the address of rank 0's key-value store, and its own place.
 *
 * @param host rank 0's address, as the other ranks can reach it
 * @param port the store's port
 * @param secret prefix of every key; ranks of other runs that reach the port by mistake do not know
 *     it
 * @param rank this rank, from 0
 * @param worldSize number of ranks
 * @param timeoutSeconds how long to wait for a peer, when connecting and in each collective
 */
public record Rendezvous(
    String host, int port, String secret, int rank, int worldSize, int timeoutSeconds) {
  public Rendezvous {
    if (worldSize < 1 || rank < 0 || rank >= worldSize) {
      throw new IllegalArgumentException(
          "Cannot join a group: expected a rank in 0..%d, got rank %d of world size %d."
              .formatted(worldSize - 1, rank, worldSize));
    }
    if (host.isBlank() || secret.isBlank()) {
      throw new IllegalArgumentException(
          "Cannot join a group: expected rank 0's host and the run's secret, got %s."
              .formatted(host.isBlank() ? "no host" : "no secret"));
    }
    if (port < 1 || port > 65535) {
      throw new IllegalArgumentException(
          "Cannot join a group: expected a port in 1..65535, got " + port + ".");
    }
    if (timeoutSeconds < 1) {
      throw new IllegalArgumentException(
          "Cannot join a group: expected a time-out of at least 1 s, got " + timeoutSeconds + ".");
    }
  }

  /** The same place with another time-out. */
  public Rendezvous withTimeout(int seconds) {
    return new Rendezvous(host, port, secret, rank, worldSize, seconds);
  }

  /** Without the secret. */
  @Override
  public String toString() {
    return "rank %d of %d at %s:%d".formatted(rank, worldSize, host, port);
  }
}
