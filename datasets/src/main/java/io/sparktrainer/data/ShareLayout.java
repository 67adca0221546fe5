package io.sparktrainer.data;

import java.io.Serializable;

/**
 * Which rows of which source partitions belong to which rank. Where validation rows have a source
 * of their own, its partitions are numbered after those of the training rows.
 */
sealed interface ShareLayout extends Serializable {
  /** Ranks. */
  int worldSize();

  /** Partitions of the source of the training rows. */
  int trainingPartitions();

  /** Partitions of a second source, for validation rows, or 0. */
  int validationPartitions();

  /** Source partitions whose end block reaches the rank. */
  int partitionsOf(int rank);

  /**
   * Row i of a set of each source partition belongs to rank {@code i mod worldSize}; the rows after
   * the last whole round are dealt out in turn over all partitions.
   */
  record Dealt(int worldSize, int trainingPartitions, int validationPartitions)
      implements ShareLayout {
    @Override
    public int partitionsOf(int rank) {
      return trainingPartitions + validationPartitions;
    }
  }

  /** Each source partition belongs to one rank whole, in contiguous groups. */
  record Grouped(int worldSize, int trainingPartitions, int validationPartitions)
      implements ShareLayout {
    @Override
    public int partitionsOf(int rank) {
      return firstTraining(rank + 1)
          - firstTraining(rank)
          + firstValidation(rank + 1)
          - firstValidation(rank);
    }

    /** The rank's first training partition. */
    int firstTraining(int rank) {
      return (int) ((long) trainingPartitions * rank / worldSize);
    }

    /** The rank's first partition of the validation source, counted from that source's first. */
    int firstValidation(int rank) {
      return (int) ((long) validationPartitions * rank / worldSize);
    }
  }
}
