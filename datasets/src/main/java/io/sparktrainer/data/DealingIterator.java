package io.sparktrainer.data;

import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Iterator;
import java.util.NoSuchElementException;
import org.jspecify.annotations.Nullable;
import scala.Tuple2;

/**
 * Deals a source partition's rows out over the ranks: row {@code i} of a set goes to rank {@code i
 * mod worldSize}. The rows after the last whole round go to every rank in the end block, together
 * with the partition's row counts, so that all ranks can deal the left-over rows of all partitions
 * out alike; shares are then equal to within one row after a single shuffle.
 */
final class DealingIterator implements Iterator<Tuple2<Integer, byte[]>> {
  private static final int TASK_BUFFER_BYTES = 32 << 20;
  private static final int MAX_BLOCK_BYTES = 1 << 20;
  private static final int MIN_BLOCK_BYTES = 16 << 10;

  private final TileSource source;
  private final int partition;
  private final int worldSize;
  private final int recordBytes;
  private final RowCounts counts;
  private final Tile tile;
  private final int blockRows;
  private final byte[] @Nullable [][] buffers = new byte[Block.SETS][][];
  private final long[] rows = new long[Block.SETS];
  private final long[] sequence = new long[Block.SETS];
  private final ArrayDeque<Tuple2<Integer, byte[]>> ready = new ArrayDeque<>();
  private boolean ended;

  DealingIterator(
      TileSource source, int partition, int worldSize, int recordBytes, RowCounts counts) {
    this.source = source;
    this.partition = partition;
    this.worldSize = worldSize;
    this.recordBytes = recordBytes;
    this.counts = counts;
    this.tile = new Tile(recordBytes);
    int bytes = Math.min(MAX_BLOCK_BYTES, TASK_BUFFER_BYTES / (Block.SETS * worldSize));
    this.blockRows = Math.max(1, Math.max(MIN_BLOCK_BYTES, bytes) / recordBytes);
  }

  @Override
  public boolean hasNext() {
    while (ready.isEmpty() && !ended) {
      int filled = source.fill(tile);
      if (filled < 0) {
        end();
      } else {
        deal(filled);
      }
    }
    return !ready.isEmpty();
  }

  @Override
  public Tuple2<Integer, byte[]> next() {
    if (!hasNext()) {
      throw new NoSuchElementException("no more blocks");
    }
    return ready.remove();
  }

  private void deal(int filled) {
    for (int i = 0; i < filled; i++) {
      int set = tile.validation[i] ? Block.VALIDATION : Block.TRAINING;
      int rank = (int) (rows[set] % worldSize);
      int row = (int) (rows[set] / worldSize % blockRows);
      byte[][] ranks = buffers(set);
      int at = Block.HEADER_BYTES + row * recordBytes;
      System.arraycopy(tile.records, Tile.BASE + i * recordBytes, ranks[rank], at, recordBytes);
      rows[set]++;
      if (rank == worldSize - 1 && row == blockRows - 1) {
        emit(set, ranks, blockRows);
      }
    }
  }

  private byte[][] buffers(int set) {
    byte[][] ranks = buffers[set];
    if (ranks == null) {
      ranks = new byte[worldSize][Block.HEADER_BYTES + blockRows * recordBytes];
      buffers[set] = ranks;
    }
    return ranks;
  }

  private void emit(int set, byte[][] ranks, int emitted) {
    for (int rank = 0; rank < worldSize; rank++) {
      byte[] block = Arrays.copyOf(ranks[rank], Block.HEADER_BYTES + emitted * recordBytes);
      Block.writeRowsHeader(block, set, partition, emitted, sequence[set]);
      ready.add(new Tuple2<>(rank, block));
    }
    sequence[set]++;
  }

  private void end() {
    ended = true;
    int[] rests = new int[Block.SETS];
    for (int set = 0; set < Block.SETS; set++) {
      rests[set] = (int) (rows[set] % worldSize);
    }
    int leftOver = rests[Block.TRAINING] + rests[Block.VALIDATION];
    byte[] end = new byte[Block.HEADER_BYTES + leftOver * recordBytes];
    Block.writeEndHeader(end, partition, rows, rests);
    int at = Block.HEADER_BYTES;
    for (int set = 0; set < Block.SETS; set++) {
      byte[][] ranks = buffers[set];
      if (ranks == null) {
        continue;
      }
      int row = (int) (rows[set] / worldSize % blockRows);
      if (row > 0) {
        emit(set, ranks, row);
      }
      for (int rank = 0; rank < rests[set]; rank++) {
        int from = Block.HEADER_BYTES + row * recordBytes;
        System.arraycopy(ranks[rank], from, end, at, recordBytes);
        at += recordBytes;
      }
      buffers[set] = null;
    }
    for (int rank = 0; rank < worldSize; rank++) {
      ready.add(new Tuple2<>(rank, end));
    }
    counts.add(partition, rows.clone());
  }
}
