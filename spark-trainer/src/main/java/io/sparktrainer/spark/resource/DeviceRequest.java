package io.sparktrainer.spark.resource;

import static java.util.Objects.requireNonNull;

import java.io.Serializable;
import java.util.List;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/**
 * What each rank of a training wants to compute on.
 *
 * @param kind processor or GPUs
 * @param ids which of its GPUs the one rank takes, by place among those that Spark gave it, else
 *     among those of its process; null for one GPU a rank, whichever falls to it
 */
public record DeviceRequest(Kind kind, @Nullable List<Integer> ids) implements Serializable {
  /** Processor or GPUs. */
  public enum Kind {
    CPU,
    /** GPUs; it is an error if a rank has none. */
    CUDA,
    /** GPUs if every rank has one that it can use, else the processor for all ranks. */
    AUTO
  }

  public DeviceRequest {
    requireNonNull(kind, "kind");
    ids = ids == null ? null : List.copyOf(ids);
  }

  /** The processor. */
  public static DeviceRequest cpu() {
    return new DeviceRequest(Kind.CPU, null);
  }

  /** Whether the ranks compute on GPUs, should they have them. */
  public boolean wantsGpus() {
    return kind != Kind.CPU;
  }

  /** GPUs of each rank. */
  public int count() {
    return ids == null ? 1 : ids.size();
  }

  /** As in a configuration. */
  @Override
  public String toString() {
    return kind.name().toLowerCase(Locale.ROOT);
  }
}
