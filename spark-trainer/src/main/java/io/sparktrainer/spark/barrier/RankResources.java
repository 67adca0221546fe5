package io.sparktrainer.spark.barrier;

import java.io.Serializable;
import org.jspecify.annotations.Nullable;

/**
 * What the training stage asks of Spark for each rank.
 *
 * @param gpus GPUs; null for what the application's options say
 * @param cpus cores; null for as many as keep other ranks off the executor, where there are
 *     executors enough, else for what the application's options say
 */
public record RankResources(@Nullable Integer gpus, @Nullable Integer cpus)
    implements Serializable {
  /** What the application's options say. */
  public static RankResources unset() {
    return new RankResources(null, null);
  }

  boolean isUnset() {
    return gpus == null && cpus == null;
  }
}
