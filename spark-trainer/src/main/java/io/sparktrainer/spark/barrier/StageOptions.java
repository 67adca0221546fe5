package io.sparktrainer.spark.barrier;

import static java.util.Objects.requireNonNull;

import io.sparktrainer.spark.resource.DeviceRequest;
import io.sparktrainer.spark.resource.GpuFinder;
import io.sparktrainer.spark.resource.GpuListing;
import java.io.Serializable;
import java.util.Map;
import java.util.TreeMap;

/**
 * How a stage is run.
 *
 * @param description what Spark's web page calls the job
 * @param device what the ranks compute on; the processor by default
 * @param finder finds the GPUs of a rank's process; by default there are none
 * @param resources what the stage asks of Spark for each rank
 * @param nccl environment of NCCL; serializable
 * @param timeoutSeconds how long a rank waits for its peers; 300 by default
 * @param slotWaitSeconds how long to wait for executors that are still registering; 20 by default
 */
public record StageOptions(
    String description,
    DeviceRequest device,
    GpuFinder finder,
    RankResources resources,
    TreeMap<String, String> nccl,
    int timeoutSeconds,
    int slotWaitSeconds)
    implements Serializable {
  public StageOptions {
    requireNonNull(description, "description");
    requireNonNull(device, "device");
    requireNonNull(finder, "finder");
    requireNonNull(resources, "resources");
    requireNonNull(nccl, "nccl");
    if (timeoutSeconds < 1 || slotWaitSeconds < 0) {
      throw new IllegalArgumentException(
          "Cannot run a stage: expected time-outs of at least 1 s and 0 s, got %d s and %d s."
              .formatted(timeoutSeconds, slotWaitSeconds));
    }
  }

  /**
   * @param description what Spark's web page calls the job
   */
  public static Builder builder(String description) {
    return new Builder(description);
  }

  /** Sets values by name; what is not set keeps its default. */
  public static final class Builder {
    private final String description;
    private DeviceRequest device = DeviceRequest.cpu();
    private GpuFinder finder = () -> GpuListing.none("nobody looked for them");
    private RankResources resources = RankResources.unset();
    private TreeMap<String, String> nccl = new TreeMap<>();
    private int timeoutSeconds = 300;
    private int slotWaitSeconds = 20;

    private Builder(String description) {
      this.description = description;
    }

    /**
     * @param how finds the GPUs of a rank's process
     */
    public Builder device(DeviceRequest request, GpuFinder how) {
      this.device = request;
      this.finder = how;
      return this;
    }

    public Builder resources(RankResources value) {
      this.resources = value;
      return this;
    }

    /** Environment variables that a rank sets before it loads NCCL. */
    public Builder nccl(Map<String, String> variables) {
      this.nccl = new TreeMap<>(variables);
      return this;
    }

    public Builder timeoutSeconds(int seconds) {
      this.timeoutSeconds = seconds;
      return this;
    }

    public Builder slotWaitSeconds(int seconds) {
      this.slotWaitSeconds = seconds;
      return this;
    }

    /**
     * @throws IllegalArgumentException if a time-out is too short
     */
    public StageOptions build() {
      return new StageOptions(
          description, device, finder, resources, nccl, timeoutSeconds, slotWaitSeconds);
    }
  }
}
