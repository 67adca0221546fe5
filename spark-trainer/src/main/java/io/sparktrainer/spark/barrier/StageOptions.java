package io.sparktrainer.spark.barrier;

import static java.util.Objects.requireNonNull;

/**
 * How a stage is run.
 *
 * @param description what Spark's web page calls the job
 * @param device what the ranks compute on
 * @param timeoutSeconds how long a rank waits for its peers
 * @param slotWaitSeconds how long to wait for executors that are still registering
 */
public record StageOptions(
    String description, String device, int timeoutSeconds, int slotWaitSeconds)
    implements java.io.Serializable {
  public StageOptions {
    requireNonNull(description, "description");
    requireNonNull(device, "device");
    if (timeoutSeconds < 1 || slotWaitSeconds < 0) {
      throw new IllegalArgumentException(
          "Cannot run a stage: expected time-outs of at least 1 s and 0 s, got %d s and %d s."
              .formatted(timeoutSeconds, slotWaitSeconds));
    }
  }
}
