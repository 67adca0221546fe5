package io.sparktrainer.data;

import java.io.Serializable;
import java.util.Iterator;
import org.apache.spark.api.java.JavaRDD;

/**
 * A source of rows, and how one of its partitions is encoded.
 *
 * @param rdd the source, with its own partitions
 * @param tiles opens a partition
 */
record SourceRdd<T>(JavaRDD<T> rdd, Tiles<T> tiles) implements Serializable {
  /** Opens a partition. */
  interface Tiles<T> extends Serializable {
    /**
     * Opens.
     *
     * @param partition what the RDD gives
     * @param split which rows are validation rows
     * @param index the partition's index, for messages
     */
    TileSource open(Iterator<T> partition, SplitRule split, int index);
  }

  int partitions() {
    return rdd.getNumPartitions();
  }
}
