package io.sparktrainer.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.sparktrainer.engine.EpochMetrics;
import io.sparktrainer.spark.barrier.RankFacts;
import java.util.List;

/**
 * What rank 0 tells the driver at the end.
 *
 * @param epochs figures of all epochs
 * @param ranks who took part
 * @param parameters elements of all parameters
 * @param stepsPerEpoch updates of the model per epoch
 * @param steps updates of the model in all epochs
 */
record RankOutcome(
    List<EpochMetrics> epochs,
    List<RankFacts> ranks,
    long parameters,
    long stepsPerEpoch,
    long steps) {
  private static final ObjectMapper JSON = new ObjectMapper();

  String toJson() {
    try {
      return JSON.writeValueAsString(this);
    } catch (JsonProcessingException e) {
      throw new IllegalStateException("Cannot write the outcome of rank 0.", e);
    }
  }

  static RankOutcome parse(String json) {
    try {
      return JSON.readValue(json, RankOutcome.class);
    } catch (JsonProcessingException e) {
      throw new IllegalStateException("Cannot read the outcome of rank 0.", e);
    }
  }
}
