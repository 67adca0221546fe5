package io.sparktrainer.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.sparktrainer.engine.EpochMetrics;
import io.sparktrainer.spark.barrier.RankFacts;
import io.sparktrainer.spark.metrics.DeviceMemory;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * What came out of a training.
 *
 * @param strategy name of the parallel strategy
 * @param strategyReason why {@code auto} took it; null where the configuration names it
 * @param epochs figures of each epoch, over all ranks
 * @param ranks who trained, by rank
 * @param deviceLack why the ranks computed on the processor although some have GPUs; else null
 * @param deviceMemory memory of the ranks' GPUs by rank and epoch; empty on the processor
 * @param parameters elements of the model's parameters
 * @param stepsPerEpoch updates of the model per epoch
 * @param steps updates of the model in all epochs
 * @param seconds wall-clock time of the whole call
 * @param runFolder where everything lies
 * @param modelPath the weights, as safetensors
 * @param metricsPath one JSON line per step and epoch, or null where not asked for
 */
public record TrainingResult(
    String strategy,
    @Nullable String strategyReason,
    List<EpochMetrics> epochs,
    List<Participant> ranks,
    @Nullable String deviceLack,
    List<DeviceMemory> deviceMemory,
    long parameters,
    long stepsPerEpoch,
    long steps,
    double seconds,
    String runFolder,
    String modelPath,
    @Nullable String metricsPath) {
  public TrainingResult {
    epochs = List.copyOf(epochs);
    ranks = List.copyOf(ranks);
    deviceMemory = List.copyOf(deviceMemory);
  }

  /**
   * One rank and where it ran.
   *
   * @param rank its number
   * @param host its executor's host
   * @param executorId Spark's id of the executor
   * @param processId process id of the executor
   * @param device what it computed on
   * @param threads processor threads that it used
   * @param rows rows that it trained on
   */
  public record Participant(
      int rank,
      String host,
      String executorId,
      long processId,
      String device,
      int threads,
      long rows) {
    static Participant of(RankFacts facts) {
      return new Participant(
          facts.rank(),
          facts.host(),
          facts.executorId(),
          facts.processId(),
          facts.device(),
          facts.threads(),
          facts.rows());
    }
  }

  /** The last epoch's figures. */
  public EpochMetrics lastEpoch() {
    return epochs.get(epochs.size() - 1);
  }

  /** As in {@code result.json}. */
  public String toJson() {
    try {
      return new ObjectMapper().writerWithDefaultPrettyPrinter().writeValueAsString(this) + "\n";
    } catch (JsonProcessingException e) {
      throw new IllegalStateException("Cannot write the result of a training.", e);
    }
  }
}
