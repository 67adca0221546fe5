package io.sparktrainer.data;

/** What is done so that ranks with different numbers of rows take the same number of steps. */
public enum Balance {
  /**
   * Rows are dealt out over the ranks in one shuffle, equal to within one row. Every row is seen
   * exactly once per epoch.
   */
  REPARTITION,

  /**
   * Ranks keep the DataFrame's partitions as they are, without a shuffle; a rank that runs out
   * repeats rows from the start of its epoch until all have as many rows as the largest.
   */
  PAD,

  /**
   * Ranks keep the DataFrame's partitions as they are; every rank uses as many rows per epoch as
   * the smallest rank has. With shuffling, other rows are left out in each epoch.
   */
  DROP,

  /**
   * Ranks keep the DataFrame's partitions as they are; a rank that runs out gets batches of 0 rows,
   * in which it must take part in the collectives of the others (the strategy's join).
   */
  JOIN
}
