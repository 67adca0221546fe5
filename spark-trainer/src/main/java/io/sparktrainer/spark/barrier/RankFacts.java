package io.sparktrainer.spark.barrier;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.sparktrainer.spark.resource.RankGpus;
import org.jspecify.annotations.Nullable;

/**
 * What one rank tells the others when they meet.
 *
 * @param rank its number, which is its partition's
 * @param host its executor's host, as the others can reach it
 * @param executorId Spark's id of the executor
 * @param processId process id of the executor
 * @param device what it computes on
 * @param gpus the GPUs that it has, or why it has none
 * @param threads processor threads that it uses
 * @param rows rows of its partition that it trains on
 * @param fingerprint packed {@link Fingerprint}
 * @param storePort port of rank 0's store; 0 for all other ranks
 * @param secret prefix of this run's keys in the store, from rank 0; else null
 * @param ncclId what NCCL's ranks meet by, from rank 0 if it has a GPU; else null
 */
public record RankFacts(
    int rank,
    String host,
    String executorId,
    long processId,
    String device,
    RankGpus gpus,
    int threads,
    long rows,
    String fingerprint,
    int storePort,
    @Nullable String secret,
    @Nullable String ncclId) {
  private static final ObjectMapper JSON = new ObjectMapper();

  /** The same on another device. */
  RankFacts on(String otherDevice) {
    return new RankFacts(
        rank,
        host,
        executorId,
        processId,
        otherDevice,
        gpus,
        threads,
        rows,
        fingerprint,
        storePort,
        secret,
        ncclId);
  }

  String toJson() {
    try {
      return JSON.writeValueAsString(this);
    } catch (JsonProcessingException e) {
      throw new IllegalStateException("Cannot write the facts of rank " + rank + ".", e);
    }
  }

  static RankFacts parse(String json) {
    try {
      return JSON.readValue(json, RankFacts.class);
    } catch (JsonProcessingException e) {
      throw new IllegalStateException(
          "Cannot read the facts of a rank: all executors need the same version of spark-trainer.",
          e);
    }
  }

  /** Without the secrets. */
  @Override
  public String toString() {
    return "rank %d on %s (executor %s, process %d, %s, %d threads, %d rows)"
        .formatted(rank, host, executorId, processId, device, threads, rows);
  }
}
