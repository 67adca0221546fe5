package io.sparktrainer.strategy.dp;

/** The first replica to fail, with its exception as the cause; later ones are suppressed in it. */
public final class ReplicaException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  private final int replica;

  ReplicaException(int replica, int replicas, Throwable cause) {
    super(
        "Cannot run replica %d of %d: %s".formatted(replica, replicas, cause.getMessage()), cause);
    this.replica = replica;
  }

  /** Number of the replica, from 0. */
  public int replica() {
    return replica;
  }
}
