package io.sparktrainer.data;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.stream.LongStream;
import scala.Tuple2;

/**
 * Source partitions of given sizes without Spark: row i of the data set has the label i. Goes
 * through the same blocks, readers and shares as a DataFrame's rows.
 */
final class FakeFrame {
  private static final int RECORD_BYTES = Float.BYTES + Long.BYTES;

  private static final ReadPlan PLAN =
      new ReadPlan(
          new TensorSchema(
              List.of(new TensorSpec("features", ElementType.FLOAT32, List.of(1L))),
              new TensorSpec(TensorSchema.LABEL, ElementType.INT64, List.of()),
              null),
          List.of(),
          List.of(),
          RECORD_BYTES,
          null);

  private final int[] partitionRows;

  FakeFrame(int... partitionRows) {
    this.partitionRows = partitionRows;
  }

  long rows() {
    long rows = 0;
    for (int partition : partitionRows) {
      rows += partition;
    }
    return rows;
  }

  List<Long> labels() {
    return LongStream.range(0, rows()).boxed().toList();
  }

  static DataSpec.Builder spec(Path folder) {
    return DataSpec.builder()
        .features("x")
        .label("id")
        .spillDirectory(folder.toString())
        .memoryBudgetBytes(64 << 20);
  }

  private TileSource source(int partition) {
    long first = 0;
    for (int p = 0; p < partition; p++) {
      first += partitionRows[p];
    }
    long start = first;
    int rows = partitionRows[partition];
    int[] done = new int[1];
    return tile -> {
      if (done[0] == rows) {
        return -1;
      }
      int count = Math.min(tile.capacity, rows - done[0]);
      for (int i = 0; i < count; i++) {
        int at = Tile.BASE + i * RECORD_BYTES;
        long label = start + done[0] + i;
        Bytes.putFloat(tile.records, at, (float) label);
        Bytes.putLong(tile.records, at + Float.BYTES, label);
        tile.validation[i] = false;
      }
      done[0] += count;
      return count;
    };
  }

  /** All ranks of a world, agreed. */
  Ranks ranks(DataSpec spec, int worldSize) {
    boolean dealt = spec.balance() == Balance.REPARTITION;
    int partitions = partitionRows.length;
    ShareLayout layout =
        dealt
            ? new ShareLayout.Dealt(worldSize, partitions, 0)
            : new ShareLayout.Grouped(worldSize, partitions, 0);
    RankReader reader = new RankReader(spec, PLAN, layout, false);
    Ranks ranks = new Ranks();
    for (int rank = 0; rank < worldSize; rank++) {
      ranks.ranks.add(
          reader.read(
              rank, dealt ? dealt(rank, worldSize) : grouped((ShareLayout.Grouped) layout, rank)));
    }
    ranks.agree();
    return ranks;
  }

  private Iterator<byte[]> dealt(int rank, int worldSize) {
    List<byte[]> blocks = new ArrayList<>();
    // backwards, as a shuffle may bring blocks in any order
    for (int p = partitionRows.length - 1; p >= 0; p--) {
      DealingIterator dealing =
          new DealingIterator(source(p), p, worldSize, RECORD_BYTES, new RowCounts());
      while (dealing.hasNext()) {
        Tuple2<Integer, byte[]> block = dealing.next();
        if (block._1() == rank) {
          blocks.add(block._2());
        }
      }
    }
    return blocks.iterator();
  }

  private Iterator<byte[]> grouped(ShareLayout.Grouped layout, int rank) {
    List<byte[]> blocks = new ArrayList<>();
    for (int p = layout.firstTraining(rank); p < layout.firstTraining(rank + 1); p++) {
      StreamingIterator streaming = new StreamingIterator(source(p), p, RECORD_BYTES);
      while (streaming.hasNext()) {
        blocks.add(streaming.next().clone());
      }
    }
    return blocks.iterator();
  }
}
