package io.sparktrainer.spark.barrier;

import java.util.Arrays;
import java.util.List;

/** What the ranks learn of each other in their one round through the driver. */
final class Meeting {
  private Meeting() {}

  /** Spark's round: hands in one text, and returns those of all ranks in rank order. */
  @FunctionalInterface
  interface Round {
    String[] exchange(String mine);
  }

  /**
   * Exchanges the facts and compares the fingerprints with rank 0's.
   *
   * @return all facts, by rank, as they were handed in
   * @throws IllegalStateException on every rank, naming the first difference, if any rank differs
   */
  static List<RankFacts> hold(RankFacts mine, Round round) {
    List<RankFacts> all =
        Arrays.stream(round.exchange(mine.toJson())).map(RankFacts::parse).toList();
    RankFacts first = all.get(0);
    for (RankFacts other : all) {
      if (!other.fingerprint().equals(first.fingerprint())) {
        String difference =
            Fingerprint.unpack(first.fingerprint())
                .firstDifference(Fingerprint.unpack(other.fingerprint()));
        if (difference != null) {
          throw new IllegalStateException(
              "Cannot start training: expected the same model and options on all ranks, got %s on ranks 0 and %d (rank %d of %d). Give all executors the same jars."
                  .formatted(difference, other.rank(), mine.rank(), all.size()));
        }
      }
    }
    return all;
  }
}
