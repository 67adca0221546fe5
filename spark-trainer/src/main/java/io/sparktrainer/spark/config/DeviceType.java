package io.sparktrainer.spark.config;

/** Which kind of device the ranks compute on. */
public enum DeviceType {
  /** The processor. */
  CPU,
  /** The best there is: today the processor. */
  AUTO
}
