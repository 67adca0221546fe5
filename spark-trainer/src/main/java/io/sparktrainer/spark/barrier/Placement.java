package io.sparktrainer.spark.barrier;

import java.io.Serializable;

/**
 * Where Spark puts the ranks.
 *
 * @param taskCpus cores that each rank asks for, or 0 for the application's {@code spark.task.cpus}
 * @param executorCores cores of the executor that a rank runs in
 */
record Placement(int taskCpus, int executorCores) implements Serializable {
  /** Whether no two ranks share an executor. */
  boolean exclusive() {
    return taskCpus > 0;
  }
}
