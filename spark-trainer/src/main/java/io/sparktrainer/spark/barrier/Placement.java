package io.sparktrainer.spark.barrier;

import java.io.Serializable;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.resource.ResourceProfile;
import org.apache.spark.resource.ResourceProfileBuilder;
import org.apache.spark.resource.TaskResourceRequests;
import org.jspecify.annotations.Nullable;

/**
 * Where Spark puts the ranks.
 *
 * @param taskCpus cores that each rank asks for, or 0 for what the application's options say, also
 *     about GPUs
 * @param taskGpus GPUs that each rank asks for
 * @param executorCores cores of the executor that a rank runs in
 * @param sharing whether two ranks may run in one executor
 */
record Placement(int taskCpus, int taskGpus, int executorCores, Sharing sharing)
    implements Serializable {
  /** Spark registers every profile for good, so equal ones are used again. */
  private static final Map<String, ResourceProfile> PROFILES = new ConcurrentHashMap<>();

  private static final String GPU = "gpu";

  /** Of executors, by ranks. */
  enum Sharing {
    /** An executor for each rank. */
    EXCLUSIVE,
    ALLOWED
  }

  /** With the resources of the application's options. */
  static Placement ofApplication(int executorCores) {
    return new Placement(0, 0, executorCores, Sharing.ALLOWED);
  }

  /** What the stage asks of Spark, or null for what the application's options say. */
  @Nullable ResourceProfile profile() {
    return taskCpus == 0
        ? null
        : PROFILES.computeIfAbsent(taskCpus + " " + taskGpus, key -> profile(taskCpus, taskGpus));
  }

  /** Only of tasks: executors of another kind would need dynamic allocation. */
  private static ResourceProfile profile(int cpus, int gpus) {
    TaskResourceRequests requests = new TaskResourceRequests().cpus(cpus);
    if (gpus > 0) {
      requests = requests.resource(GPU, gpus);
    }
    return new ResourceProfileBuilder().require(requests).build();
  }
}
