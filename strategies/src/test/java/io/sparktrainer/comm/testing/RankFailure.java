package io.sparktrainer.comm.testing;

/** The first failure among the ranks of a run; the cause is the rank's own exception. */
public final class RankFailure extends RuntimeException {
  private static final long serialVersionUID = 1L;

  RankFailure(int rank, int worldSize, Throwable cause) {
    super("Rank %d of %d failed: %s".formatted(rank, worldSize, cause), cause);
  }

  RankFailure(String message) {
    super(message);
  }
}
