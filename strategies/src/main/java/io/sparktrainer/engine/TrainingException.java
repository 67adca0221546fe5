package io.sparktrainer.engine;

/** A training that ended early, with the place where it did: rank, epoch and step. */
public final class TrainingException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  private final int rank;
  private final long step;

  TrainingException(String message, int rank, long step, Throwable cause) {
    super(message, cause);
    this.rank = rank;
    this.step = step;
  }

  /** The rank that failed. */
  public int rank() {
    return rank;
  }

  /** Optimizer steps completed on that rank before the failure. */
  public long step() {
    return step;
  }
}
