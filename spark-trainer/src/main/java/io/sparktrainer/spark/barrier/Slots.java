package io.sparktrainer.spark.barrier;

import io.sparktrainer.spark.barrier.Placement.Sharing;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.apache.spark.SparkContext;
import org.apache.spark.resource.ResourceProfile;
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

  private static final String TASK_GPUS = "spark.task.resource.gpu.amount";
  private static final String GPU = "gpu";

  private final SparkContext spark;
  private final StageOptions options;

  Slots(SparkContext spark, StageOptions options) {
    this.spark = spark;
    this.options = options;
  }

  /**
   * Waits for the slots, and for executors enough that each rank gets its own.
   *
   * @throws StageFailedException if there are too few slots after the options' {@code
   *     slotWaitSeconds}, or the master cannot give what they ask for
   */
  Placement require(int workers) {
    refuseDynamicAllocation();
    refuseResourcesOfALocalMaster();
    long wait = spark.isLocal() ? 0 : options.slotWaitSeconds();
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(wait);
    while (true) {
      boolean late = System.nanoTime() >= deadline;
      Placement placement = place(workers);
      if (placement != null && (placement.sharing() == Sharing.EXCLUSIVE || late || isSettled())) {
        return placement;
      }
      if (late) {
        throw new StageFailedException(tooFew(workers), null);
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

  private void refuseResourcesOfALocalMaster() {
    if (spark.isLocal() && !options.resources().isUnset()) {
      throw new StageFailedException(
          "Cannot start the training: expected a cluster for device.resources, got master %s, which gives tasks no resources. Take device.resources out; each rank takes the GPU of its place."
              .formatted(spark.master()),
          null);
    }
  }

  private boolean isSettled() {
    return spark.isLocal() || System.currentTimeMillis() - spark.startTime() > SETTLED_MILLIS;
  }

  private @Nullable Placement place(int workers) {
    if (spark.isLocal()) {
      int slots = slots(null);
      return slots >= workers ? Placement.ofApplication(slots * taskCpus()) : null;
    }
    List<Integer> cores = executorCores();
    if (cores.isEmpty()) {
      return null;
    }
    Placement alone = cores.size() >= workers ? alone(workers, cores) : null;
    if (alone != null && slots(alone.profile()) >= workers) {
      return alone;
    }
    Placement shared = shared(cores.get(cores.size() - 1));
    return slots(shared.profile()) >= workers ? shared : null;
  }

  /** An executor for each rank, if that can be had by asking for cores. */
  private @Nullable Placement alone(int workers, List<Integer> cores) {
    // As many cores as the smallest of the largest executors has: more than half of each, so
    // that no second rank fits beside the first.
    Integer asked = options.resources().cpus();
    int each = asked == null ? cores.get(workers - 1) : asked;
    return 2 * each > cores.get(0)
        ? new Placement(each, gpus(), cores.get(workers - 1), Sharing.EXCLUSIVE)
        : null;
  }

  private Placement shared(int executorCores) {
    Integer cpus = options.resources().cpus();
    boolean asTheApplication = cpus == null && gpus() == applicationGpus();
    return asTheApplication
        ? Placement.ofApplication(executorCores)
        : new Placement(cpus == null ? taskCpus() : cpus, gpus(), executorCores, Sharing.ALLOWED);
  }

  /** GPUs that Spark has to give each rank. A part of one is no use: ranks do not share GPUs. */
  private int gpus() {
    Integer asked = options.resources().gpus();
    if (asked != null) {
      return asked;
    }
    return options.device().wantsGpus() ? (int) Math.ceil(applicationGpus()) : 0;
  }

  private double applicationGpus() {
    return spark.conf().getDouble(TASK_GPUS, 0);
  }

  private List<ExecutorSummary> executors() {
    return CollectionConverters.asJava(spark.statusStore().executorList(true)).stream()
        .filter(executor -> !executor.id().equals("driver") && executor.isActive())
        .filter(executor -> executor.totalCores() > 0)
        .toList();
  }

  /** Cores of each registered executor, largest first. */
  private List<Integer> executorCores() {
    return executors().stream()
        .map(ExecutorSummary::totalCores)
        .sorted(Comparator.reverseOrder())
        .toList();
  }

  private int executorGpus() {
    int count = 0;
    for (ExecutorSummary executor : executors()) {
      if (executor.resources().contains(GPU)) {
        count += executor.resources().apply(GPU).addresses().length;
      }
    }
    return count;
  }

  private int taskCpus() {
    return spark.conf().getInt("spark.task.cpus", 1);
  }

  /** Tasks of a profile that run at once, busy slots included. */
  private int slots(@Nullable ResourceProfile profile) {
    if (profile == null) {
      return spark.maxNumConcurrentTasks(spark.resourceProfileManager().defaultResourceProfile());
    }
    try {
      spark.resourceProfileManager().addResourceProfile(profile);
    } catch (RuntimeException e) {
      throw new StageFailedException(
          "Cannot start the training: expected a master that gives one stage resources of its own, got %s on %s. Take device.resources out and set spark.task.cpus and spark.task.resource.gpu.amount for the whole application."
              .formatted(e.getMessage(), spark.master()),
          e);
    }
    return spark.maxNumConcurrentTasks(profile);
  }

  private String tooFew(int workers) {
    String master = spark.master();
    Placement wanted = spark.isLocal() ? Placement.ofApplication(1) : shared(1);
    int cpus = wanted.taskCpus() == 0 ? taskCpus() : wanted.taskCpus();
    int gpus = spark.isLocal() ? 0 : gpus();
    String remedy;
    if (spark.isLocal()) {
      remedy = "Use --master local[%d] or fewer workers.".formatted(workers);
    } else if (gpus > 0 && executorGpus() < gpus * workers) {
      remedy =
          "Set spark.executor.resource.gpu.amount and spark.executor.resource.gpu.discoveryScript (spark-trainer/bin/discover-gpus), start more executors, or use fewer workers (device.parallel.workers).";
    } else if (master.startsWith("spark://") || master.startsWith("local-cluster")) {
      remedy =
          "Start more workers, raise spark.cores.max or lower spark.executor.cores, so that %d executors fit, or use fewer workers (device.parallel.workers)."
              .formatted(workers);
    } else {
      remedy =
          "Raise spark.executor.instances to %d, or use fewer workers (device.parallel.workers)."
              .formatted(workers);
    }
    return "Cannot start the training: expected %d slots, one per rank, got %d on master %s (%d executors of %d per task%s)%s. %s"
        .formatted(
            workers,
            slots(wanted.profile()),
            master,
            executorCores().size(),
            cpus,
            gpus == 0
                ? ""
                : " with %d %s, which have %d in all"
                    .formatted(gpus, gpus == 1 ? "GPU" : "GPUs", executorGpus()),
            spark.isLocal() ? "" : " after waiting " + options.slotWaitSeconds() + " s",
            remedy);
  }
}
