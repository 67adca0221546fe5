package io.sparktrainer.data;

import org.apache.spark.sql.SparkSession;

/** One local session for all tests of the module. */
final class SparkForTests {
  private static final class Holder {
    static final SparkSession SESSION =
        SparkSession.builder()
            .master("local[2]")
            .appName("datasets tests")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.shuffle.partitions", "4")
            .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
            .getOrCreate();
  }

  private SparkForTests() {}

  static SparkSession session() {
    return Holder.SESSION;
  }
}
