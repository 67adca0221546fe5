package io.sparktrainer.spark.metrics;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.sparktrainer.engine.EpochMetrics;
import io.sparktrainer.engine.StepMetrics;

/** One line of {@code metrics.jsonl}. */
public sealed interface MetricRecord {
  /** The record as one JSON object on one line, with its kind under {@code type}. */
  String toJson();

  /**
   * What is about to be done, before the first step.
   *
   * @param trainingRows training rows of all ranks
   * @param testRows rows held back for testing, of all ranks
   * @param stepsPerEpoch updates of the model per epoch
   * @param steps updates of the model in all epochs
   */
  record Start(long trainingRows, long testRows, long stepsPerEpoch, long steps)
      implements MetricRecord {
    @Override
    public String toJson() {
      ObjectNode json = Json.MAPPER.createObjectNode();
      json.put("type", "start");
      json.setAll((ObjectNode) Json.MAPPER.valueToTree(this));
      return json.toString();
    }
  }

  /**
   * A step of one rank.
   *
   * @param rank which rank
   * @param metrics its figures
   */
  record Step(int rank, StepMetrics metrics) implements MetricRecord {
    @Override
    public String toJson() {
      ObjectNode json = Json.MAPPER.createObjectNode();
      json.put("type", "step").put("rank", rank);
      json.setAll((ObjectNode) Json.MAPPER.valueToTree(metrics));
      return json.toString();
    }
  }

  /**
   * An epoch of all ranks.
   *
   * @param metrics its figures
   */
  record Epoch(EpochMetrics metrics) implements MetricRecord {
    @Override
    public String toJson() {
      ObjectNode json = Json.MAPPER.createObjectNode();
      json.put("type", "epoch");
      json.setAll((ObjectNode) Json.MAPPER.valueToTree(metrics));
      json.put("samplesPerSecond", metrics.samplesPerSecond());
      return json.toString();
    }
  }

  /**
   * Memory of one rank's GPU.
   *
   * @param figures of an epoch
   */
  record Memory(DeviceMemory figures) implements MetricRecord {
    @Override
    public String toJson() {
      ObjectNode json = Json.MAPPER.createObjectNode();
      json.put("type", "memory");
      json.setAll((ObjectNode) Json.MAPPER.valueToTree(figures));
      json.put("share", figures.share());
      return json.toString();
    }
  }

  /**
   * Reads what {@link #toJson} wrote.
   *
   * @throws IllegalArgumentException if the text is no such record
   */
  static MetricRecord parse(String text) {
    try {
      ObjectNode json = (ObjectNode) Json.MAPPER.readTree(text);
      String type = json.remove("type").asText();
      if (type.equals("start")) {
        return Json.MAPPER.treeToValue(json, Start.class);
      }
      if (type.equals("step")) {
        int rank = json.remove("rank").asInt();
        return new Step(rank, Json.MAPPER.treeToValue(json, StepMetrics.class));
      }
      if (type.equals("memory")) {
        json.remove("share");
        return new Memory(Json.MAPPER.treeToValue(json, DeviceMemory.class));
      }
      json.remove("samplesPerSecond");
      return new Epoch(Json.MAPPER.treeToValue(json, EpochMetrics.class));
    } catch (JsonProcessingException | ClassCastException | NullPointerException e) {
      throw new IllegalArgumentException("Cannot read a metric record, got: " + text, e);
    }
  }

  /** Holds the mapper, which an interface cannot do in private. */
  final class Json {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    private Json() {}
  }
}
