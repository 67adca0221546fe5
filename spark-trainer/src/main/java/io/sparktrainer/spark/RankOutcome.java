package io.sparktrainer.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.sparktrainer.engine.EpochMetrics;
import io.sparktrainer.spark.barrier.RankFacts;
import io.sparktrainer.spark.metrics.DeviceMemory;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * What a rank tells the driver at the end: rank 0 all of it, the others only about their GPUs.
 *
 * @param epochs figures of all epochs
 * @param ranks who took part
 * @param parameters elements of all parameters
 * @param stepsPerEpoch updates of the model per epoch
 * @param steps updates of the model in all epochs
 * @param deviceLack why the ranks computed on the processor although some have GPUs, or null
 * @param memory of the rank's GPUs, by epoch
 */
record RankOutcome(
    List<EpochMetrics> epochs,
    List<RankFacts> ranks,
    long parameters,
    long stepsPerEpoch,
    long steps,
    @Nullable String deviceLack,
    List<DeviceMemory> memory) {
  private static final ObjectMapper JSON = new ObjectMapper();

  /** Of a rank other than 0. */
  static RankOutcome ofMemory(List<DeviceMemory> memory) {
    return new RankOutcome(List.of(), List.of(), 0, 0, 0, null, memory);
  }

  /** Rank 0's, with what the others told. */
  static RankOutcome join(List<String> outcomes) {
    List<RankOutcome> all = outcomes.stream().map(RankOutcome::parse).toList();
    RankOutcome first = all.get(0);
    return new RankOutcome(
        first.epochs,
        first.ranks,
        first.parameters,
        first.stepsPerEpoch,
        first.steps,
        first.deviceLack,
        all.stream().flatMap(outcome -> outcome.memory.stream()).toList());
  }

  String toJson() {
    try {
      return JSON.writeValueAsString(this);
    } catch (JsonProcessingException e) {
      throw new IllegalStateException("Cannot write the outcome of a rank.", e);
    }
  }

  private static RankOutcome parse(String json) {
    try {
      return JSON.readValue(json, RankOutcome.class);
    } catch (JsonProcessingException e) {
      throw new IllegalStateException("Cannot read the outcome of a rank.", e);
    }
  }
}
