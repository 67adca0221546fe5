package io.sparktrainer.data;

import java.util.Iterator;
import java.util.NoSuchElementException;
import org.jspecify.annotations.Nullable;

/**
 * Hands a source partition's rows on as they are encoded, for a reader in the same task. The array
 * that {@link #next} returns is used again: it is valid until the next call.
 */
final class StreamingIterator implements Iterator<byte[]> {
  private final TileSource source;
  private final int partition;
  private final int recordBytes;
  private final Tile tile;
  private final long[] rows = new long[Block.SETS];
  private final long[] sequence = new long[Block.SETS];
  private byte @Nullable [] validation;
  private int waitingValidation;
  private byte @Nullable [] ready;
  private boolean ended;

  StreamingIterator(TileSource source, int partition, int recordBytes) {
    this.source = source;
    this.partition = partition;
    this.recordBytes = recordBytes;
    this.tile = new Tile(recordBytes);
  }

  @Override
  public boolean hasNext() {
    while (ready == null && !ended) {
      if (waitingValidation > 0) {
        ready = block(Block.VALIDATION, validationBuffer(), waitingValidation);
        waitingValidation = 0;
        return true;
      }
      int filled = source.fill(tile);
      if (filled < 0) {
        ended = true;
        ready = new byte[Block.HEADER_BYTES];
        Block.writeEndHeader(ready, partition, rows, new int[Block.SETS]);
      } else {
        int training = separate(filled);
        if (training > 0) {
          ready = block(Block.TRAINING, tile.records, training);
        }
      }
    }
    return ready != null;
  }

  @Override
  public byte[] next() {
    if (!hasNext() || ready == null) {
      throw new NoSuchElementException("no more blocks");
    }
    byte[] block = ready;
    ready = null;
    return block;
  }

  /** Moves validation records out of the tile; returns how many training records stay. */
  private int separate(int filled) {
    int training = 0;
    for (int i = 0; i < filled; i++) {
      int from = Tile.BASE + i * recordBytes;
      if (tile.validation[i]) {
        int at = Tile.BASE + waitingValidation++ * recordBytes;
        System.arraycopy(tile.records, from, validationBuffer(), at, recordBytes);
      } else {
        if (training < i) {
          int at = Tile.BASE + training * recordBytes;
          System.arraycopy(tile.records, from, tile.records, at, recordBytes);
        }
        training++;
      }
    }
    return training;
  }

  private byte[] validationBuffer() {
    byte[] buffer = validation;
    if (buffer == null) {
      buffer = new byte[tile.records.length];
      validation = buffer;
    }
    return buffer;
  }

  private byte[] block(int set, byte[] block, int count) {
    Block.writeRowsHeader(block, set, partition, count, sequence[set]++);
    rows[set] += count;
    return block;
  }
}
