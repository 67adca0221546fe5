package io.sparktrainer.data;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Records one after the other in chunks: direct memory as far as the budget goes, then a file on
 * local disk, mapped once all are written. First records are appended, then {@link #seal} ends that
 * and reading begins.
 */
final class RowStore implements AutoCloseable {
  private static final int CHUNK_BYTES = 4 << 20;
  private static final int CHUNKS_PER_BUDGET = 8;

  private final int recordBytes;
  private final int chunkShift;
  private final int chunkMask;
  private final MemoryBudget budget;
  private final @Nullable String spillDirectory;
  private final List<ByteBuffer> memory = new ArrayList<>();
  private final List<ByteBuffer> chunks = new ArrayList<>();
  private @Nullable SpillFile file;
  private @Nullable ByteBuffer staging;
  private long rows;

  RowStore(int recordBytes, MemoryBudget budget, @Nullable String spillDirectory) {
    this.recordBytes = recordBytes;
    this.budget = budget;
    this.spillDirectory = spillDirectory;
    long target = Math.min(CHUNK_BYTES, budget.bytes() / CHUNKS_PER_BUDGET);
    int perChunk = Integer.highestOneBit((int) Math.max(1, target / recordBytes));
    this.chunkShift = Integer.numberOfTrailingZeros(perChunk);
    this.chunkMask = perChunk - 1;
  }

  long rows() {
    return rows;
  }

  /** Whether rows lie on disk. */
  boolean isSpilled() {
    return file != null;
  }

  /** Appends records from an array. */
  void append(byte[] from, int offset, int count) {
    int done = 0;
    while (done < count) {
      int inChunk = (int) (rows & chunkMask);
      ByteBuffer chunk = inChunk == 0 ? nextChunk() : current();
      int part = Math.min(count - done, chunkMask + 1 - inChunk);
      chunk.put(inChunk * recordBytes, from, offset + done * recordBytes, part * recordBytes);
      rows += part;
      done += part;
    }
  }

  private ByteBuffer current() {
    return staging != null ? staging : memory.get(memory.size() - 1);
  }

  private ByteBuffer nextChunk() {
    int bytes = (chunkMask + 1) * recordBytes;
    if (staging == null && budget.take(bytes)) {
      try {
        ByteBuffer chunk = DirectMemory.allocate(bytes);
        memory.add(chunk);
        return chunk;
      } catch (OutOfMemoryError e) {
        // the JVM's own limit is below the budget: disk serves from here on
        budget.exhaust();
      }
    }
    ByteBuffer free = staging;
    if (free == null) {
      file = SpillFile.create(spillDirectory, bytes);
      free = DirectMemory.allocate(bytes);
      staging = free;
    } else if (file != null) {
      file.append(free);
    }
    return free;
  }

  /** Ends appending. */
  void seal() {
    chunks.addAll(memory);
    ByteBuffer last = staging;
    if (last != null && file != null) {
      file.append(last);
      DirectMemory.free(last);
      staging = null;
      chunks.addAll(file.map());
    }
  }

  /** The chunk that holds a row; after {@link #seal}. */
  ByteBuffer chunk(long row) {
    return chunks.get((int) (row >>> chunkShift));
  }

  /** Where in its chunk a row starts, in bytes. */
  int offset(long row) {
    return (int) (row & chunkMask) * recordBytes;
  }

  @Override
  public void close() {
    chunks.clear();
    memory.forEach(DirectMemory::free);
    memory.clear();
    if (staging != null) {
      DirectMemory.free(staging);
      staging = null;
    }
    if (file != null) {
      file.close();
    }
    rows = 0;
  }
}
