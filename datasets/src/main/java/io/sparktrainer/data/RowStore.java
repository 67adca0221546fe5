package io.sparktrainer.data;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/** Records one after the other in chunks of direct memory. */
final class RowStore implements AutoCloseable {
  private static final int CHUNK_BYTES = 4 << 20;

  private final int recordBytes;
  private final int chunkShift;
  private final int chunkMask;
  private final List<ByteBuffer> chunks = new ArrayList<>();
  private long rows;

  RowStore(int recordBytes) {
    this.recordBytes = recordBytes;
    int perChunk = Integer.highestOneBit(Math.max(1, CHUNK_BYTES / recordBytes));
    this.chunkShift = Integer.numberOfTrailingZeros(perChunk);
    this.chunkMask = perChunk - 1;
  }

  long rows() {
    return rows;
  }

  /** Appends records from an array. */
  void append(byte[] from, int offset, int count) {
    int done = 0;
    while (done < count) {
      int inChunk = (int) (rows & chunkMask);
      if (inChunk == 0) {
        chunks.add(DirectMemory.allocate((chunkMask + 1) * recordBytes));
      }
      int part = Math.min(count - done, chunkMask + 1 - inChunk);
      chunks
          .get(chunks.size() - 1)
          .put(inChunk * recordBytes, from, offset + done * recordBytes, part * recordBytes);
      rows += part;
      done += part;
    }
  }

  /** The chunk that holds a row. */
  ByteBuffer chunk(long row) {
    return chunks.get((int) (row >>> chunkShift));
  }

  /** Where in its chunk a row starts, in bytes. */
  int offset(long row) {
    return (int) (row & chunkMask) * recordBytes;
  }

  @Override
  public void close() {
    chunks.forEach(DirectMemory::free);
    chunks.clear();
    rows = 0;
  }
}
