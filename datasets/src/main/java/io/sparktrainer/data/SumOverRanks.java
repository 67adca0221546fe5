package io.sparktrainer.data;

/** A collective that the caller brings: the element-wise sum of one vector over all ranks. */
@FunctionalInterface
public interface SumOverRanks {
  /** For a single rank: the sum is the rank's own vector. */
  SumOverRanks SINGLE = mine -> mine;

  /**
   * Sums. Every rank calls it at the same place with a vector of the same length.
   *
   * @param mine this rank's vector
   * @return the sum, the same on all ranks
   */
  long[] sum(long[] mine);
}
