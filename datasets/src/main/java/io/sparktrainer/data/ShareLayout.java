package io.sparktrainer.data;

import java.io.Serializable;

/** Which rows of which source partitions belong to which rank. */
sealed interface ShareLayout extends Serializable {
  /** Ranks. */
  int worldSize();

  /** Source partitions, training before validation where they have different sources. */
  int sourcePartitions();

  /** Source partitions whose end block reaches the rank. */
  int partitionsOf(int rank);

  /**
   * Row i of a set of each source partition belongs to rank {@code i mod worldSize}; the rows after
   * the last whole round are dealt out in turn over all partitions.
   */
  record Dealt(int worldSize, int sourcePartitions) implements ShareLayout {
    @Override
    public int partitionsOf(int rank) {
      return sourcePartitions;
    }
  }

  /**
   * Each source partition belongs to one rank whole: the training partitions in contiguous groups,
   * and likewise those of a second, validation source.
   */
  record Grouped(int worldSize, int trainingPartitions, int validationPartitions)
      implements ShareLayout {
    @Override
    public int sourcePartitions() {
      return trainingPartitions + validationPartitions;
    }

    @Override
    public int partitionsOf(int rank) {
      return first(trainingPartitions, rank + 1)
          - first(trainingPartitions, rank)
          + first(validationPartitions, rank + 1)
          - first(validationPartitions, rank);
    }

    int firstTraining(int rank) {
      return first(trainingPartitions, rank);
    }

    int firstValidation(int rank) {
      return first(validationPartitions, rank);
    }

    private int first(int partitions, int rank) {
      return (int) ((long) partitions * rank / worldSize);
    }

    /** Rank that a source partition belongs to. */
    int owner(int partition) {
      boolean training = partition < trainingPartitions;
      int partitions = training ? trainingPartitions : validationPartitions;
      int index = training ? partition : partition - trainingPartitions;
      int rank = (int) ((long) index * worldSize / partitions);
      while (first(partitions, rank + 1) <= index) {
        rank++;
      }
      return rank;
    }
  }
}
