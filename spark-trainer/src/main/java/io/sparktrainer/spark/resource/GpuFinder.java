package io.sparktrainer.spark.resource;

import java.io.Serializable;

/** Looks for the GPUs that this process can use. */
@FunctionalInterface
public interface GpuFinder extends Serializable {
  /** Never throws because of what the machine has or lacks. */
  GpuListing find();
}
