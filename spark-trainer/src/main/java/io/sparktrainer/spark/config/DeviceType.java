package io.sparktrainer.spark.config;

/** Which kind of device the ranks compute on. */
public enum DeviceType {
  /** The processor. */
  CPU,
  /** A GPU of its own for each rank; an error where a rank has none that it can use. */
  CUDA,
  /** CUDA where every rank has a GPU that it can use, else the processor for all of them. */
  AUTO
}
