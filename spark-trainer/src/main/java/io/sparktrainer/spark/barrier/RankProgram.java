package io.sparktrainer.spark.barrier;

import java.io.Serializable;
import java.util.Iterator;

/**
 * What every rank runs.
 *
 * @param <T> type of a row of the stage's data set
 */
@FunctionalInterface
public interface RankProgram<T> extends Serializable {
  /**
   * Runs on the rank's own thread in its executor.
   *
   * @param rows the rank's partition
   * @return a short text for the driver; large things do not belong into a task's result
   * @throws Exception which fails the whole stage
   */
  String run(Rank rank, Iterator<T> rows) throws Exception;
}
