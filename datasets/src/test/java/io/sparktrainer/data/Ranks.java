package io.sparktrainer.data;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;

/** Reads all ranks of a data set in this process, as a barrier stage would in its tasks. */
final class Ranks implements AutoCloseable {
  final List<RankData> ranks = new ArrayList<>();

  static Ranks of(Dataset<Row> frame, DataSpec spec, int worldSize) {
    PreparedData data = Datasets.prepare(frame, spec, worldSize);
    data.materialize();
    return of(data);
  }

  static Ranks of(PreparedData data) {
    FlatMapFunction<java.util.Iterator<byte[]>, byte[]> copies =
        blocks -> {
          List<byte[]> all = new ArrayList<>();
          blocks.forEachRemaining(block -> all.add(block.clone()));
          return all.iterator();
        };
    int[] partitions = java.util.stream.IntStream.range(0, data.worldSize()).toArray();
    List<byte[]>[] blocks = data.rdd().mapPartitions(copies).collectPartitions(partitions);
    Ranks all = new Ranks();
    for (int rank = 0; rank < data.worldSize(); rank++) {
      all.ranks.add(data.reader().read(rank, blocks[rank].iterator()));
    }
    all.agree();
    return all;
  }

  /** Gives every rank the sum of what all ranks bring, in one thread. */
  void agree() {
    List<long[]> brought = new ArrayList<>();
    for (RankData rank : ranks) {
      try {
        rank.agree(
            mine -> {
              throw new Collected(mine);
            });
      } catch (Collected e) {
        brought.add(e.mine);
      }
    }
    long[] sum = new long[brought.get(0).length];
    for (long[] mine : brought) {
      for (int i = 0; i < sum.length; i++) {
        sum[i] += mine[i];
      }
    }
    for (RankData rank : ranks) {
      rank.agree(mine -> sum);
    }
  }

  private static final class Collected extends RuntimeException {
    private static final long serialVersionUID = 1L;

    final transient long[] mine;

    Collected(long[] mine) {
      this.mine = mine;
    }
  }

  @Override
  public void close() {
    ranks.forEach(RankData::close);
  }
}
