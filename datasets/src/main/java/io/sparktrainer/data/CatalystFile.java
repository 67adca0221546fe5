package io.sparktrainer.data;

import org.apache.spark.rdd.InputFileBlockHolder;

/** The file that the calling task reads at this moment, for messages. */
final class CatalystFile {
  private CatalystFile() {}

  /** Empty where rows come from no file, or from several through a shuffle. */
  static String current() {
    try {
      return InputFileBlockHolder.getInputFilePath().toString();
    } catch (RuntimeException | LinkageError e) {
      // An internal of Spark's; the message does without it.
      return "";
    }
  }
}
