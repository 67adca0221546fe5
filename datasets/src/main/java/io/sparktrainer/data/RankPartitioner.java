package io.sparktrainer.data;

import org.apache.spark.Partitioner;

/** The key is the rank. */
final class RankPartitioner extends Partitioner {
  private static final long serialVersionUID = 1L;

  private final int worldSize;

  RankPartitioner(int worldSize) {
    this.worldSize = worldSize;
  }

  @Override
  public int numPartitions() {
    return worldSize;
  }

  @Override
  public int getPartition(Object rank) {
    return (Integer) rank;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof RankPartitioner ranks && ranks.worldSize == worldSize;
  }

  @Override
  public int hashCode() {
    return worldSize;
  }
}
