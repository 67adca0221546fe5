package io.sparktrainer.spark.barrier;

import java.util.Comparator;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.apache.spark.SparkContext;
import org.apache.spark.status.api.v1.ExecutorSummary;
import org.jspecify.annotations.Nullable;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Checks before a stage is submitted that all its ranks can run at once. Spark would try again in
 * silence for ten minutes.
 */
final class Slots {
  private static final long POLL_MILLIS = 200;

  /** Age of an application at which all the executors that it will get should be there. */
  private static final long SETTLED_MILLIS = 15_000;

  private final SparkContext spark;

  Slots(SparkContext spark) {
    this.spark = spark;
  }

  /**
   * Waits for the slots, and for executors enough that each rank gets its own.
   *
   * @throws StageFailedException if there are too few slots after {@code waitSeconds}
   */
  Placement require(int workers, int waitSeconds) {
    refuseDynamicAllocation();
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(spark.isLocal() ? 0 : waitSeconds);
    while (true) {
      boolean late = System.nanoTime() >= deadline;
      Placement placement = place(workers);
      if (placement != null && (placement.exclusive() || late || isSettled())) {
        return placement;
      }
      if (late) {
        throw new StageFailedException(tooFew(workers, waitSeconds), null);
      }
      if (Thread.currentThread().isInterrupted()) {
        throw new StageFailedException("Cannot start the training: interrupted.", null);
      }
      // Spark tells nobody when an executor registers that was not running before.
      LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(POLL_MILLIS));
    }
  }

  private void refuseDynamicAllocation() {
    if (spark.conf().getBoolean("spark.dynamicAllocation.enabled", false)) {
      throw new StageFailedException(
          "Cannot start the training: expected a fixed set of executors, got"
              + " spark.dynamicAllocation.enabled=true. A barrier stage needs all its slots at"
              + " once; set spark.dynamicAllocation.enabled=false and spark.executor.instances.",
          null);
    }
  }

  private boolean isSettled() {
    return spark.isLocal() || System.currentTimeMillis() - spark.startTime() > SETTLED_MILLIS;
  }

  private @Nullable Placement place(int workers) {
    if (spark.isLocal()) {
      int slots = slots();
      return slots >= workers ? new Placement(0, slots * taskCpus()) : null;
    }
    List<Integer> cores = executorCores();
    if (cores.size() >= workers) {
      // As many cores as the smallest of the largest executors has: more than half of each, so
      // that no second rank fits beside the first.
      int each = cores.get(workers - 1);
      if (2 * each > cores.get(0)) {
        return new Placement(each, each);
      }
    }
    return slots() >= workers && !cores.isEmpty()
        ? new Placement(0, cores.get(cores.size() - 1))
        : null;
  }

  /** Cores of each registered executor, largest first. */
  private List<Integer> executorCores() {
    return CollectionConverters.asJava(spark.statusStore().executorList(true)).stream()
        .filter(executor -> !executor.id().equals("driver") && executor.isActive())
        .map(ExecutorSummary::totalCores)
        .filter(cores -> cores > 0)
        .sorted(Comparator.reverseOrder())
        .toList();
  }

  private int taskCpus() {
    return spark.conf().getInt("spark.task.cpus", 1);
  }

  /** Tasks that run at once, busy slots included. */
  private int slots() {
    return spark.maxNumConcurrentTasks(spark.resourceProfileManager().defaultResourceProfile());
  }

  private String tooFew(int workers, int waitSeconds) {
    String master = spark.master();
    int slots = slots();
    String remedy;
    if (spark.isLocal()) {
      remedy = "Use --master local[%d] or fewer workers.".formatted(workers);
    } else if (master.startsWith("spark://") || master.startsWith("local-cluster")) {
      remedy =
          "Start more workers, raise spark.cores.max or lower spark.executor.cores, so that %d executors fit, or use fewer workers (device.parallel.workers)."
              .formatted(workers);
    } else {
      remedy =
          "Raise spark.executor.instances to %d, or use fewer workers (device.parallel.workers)."
              .formatted(workers);
    }
    return "Cannot start the training: expected %d slots, one per rank, got %d on master %s (%d executors of %d per task)%s. %s"
        .formatted(
            workers,
            slots,
            master,
            executorCores().size(),
            taskCpus(),
            spark.isLocal() ? "" : " after waiting " + waitSeconds + " s",
            remedy);
  }
}
