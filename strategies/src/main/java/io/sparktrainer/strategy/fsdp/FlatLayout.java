package io.sparktrainer.strategy.fsdp;

import java.util.List;

/**
 * Where the parameters of one group lie in a flat buffer that is cut into equal pieces: arithmetic
 * only, no tensors.
 *
 * <p>Parameters follow each other row-major, each starting at a multiple of {@link #ALIGNMENT}
 * elements; the buffer is padded to a multiple of the number of shards. A parameter may reach over
 * several shards, and a shard may hold nothing of it.
 */
public final class FlatLayout {
  /** In elements: 16 bytes at least, which vector instructions and GPU kernels like. */
  static final int ALIGNMENT = 8;

  private final long[] offsets;
  private final long[] numels;
  private final int shards;
  private final long shardNumel;

  /**
   * Part of a parameter in a shard.
   *
   * @param offsetInParameter first element of the part in the parameter
   * @param offsetInShard where it lies in the shard
   * @param length number of elements, 0 or more
   */
  record Slice(long offsetInParameter, long offsetInShard, long length) {}

  /**
   * Lays out parameters of the given sizes in {@code shards} equal pieces.
   *
   * @param numels elements of each parameter, 0 or more
   */
  public FlatLayout(List<Long> numels, int shards) {
    this.numels = numels.stream().mapToLong(Long::longValue).toArray();
    this.offsets = new long[numels.size()];
    this.shards = shards;
    long end = 0;
    for (int i = 0; i < offsets.length; i++) {
      offsets[i] = roundUp(end, ALIGNMENT);
      end = this.numels[i] == 0 ? end : offsets[i] + this.numels[i];
    }
    this.shardNumel = roundUp(end, shards) / shards;
  }

  private static long roundUp(long value, long multiple) {
    return (value + multiple - 1) / multiple * multiple;
  }

  int shards() {
    return shards;
  }

  /** Elements of one shard. */
  public long shardNumel() {
    return shardNumel;
  }

  /** Elements of the whole buffer, padding included. */
  public long paddedNumel() {
    return shardNumel * shards;
  }

  /** Where parameter {@code index} begins in the whole buffer. */
  long offset(int index) {
    // An empty parameter after the last full one begins where the buffer ends.
    return Math.min(offsets[index], paddedNumel());
  }

  long numel(int index) {
    return numels[index];
  }

  /** What shard {@code shard} holds of parameter {@code index}. */
  Slice slice(int index, int shard) {
    long shardStart = shard * shardNumel;
    long start = Math.max(offset(index), shardStart);
    long end = Math.min(offset(index) + numels[index], shardStart + shardNumel);
    if (end <= start) {
      return new Slice(0, 0, 0);
    }
    return new Slice(start - offset(index), start - shardStart, end - start);
  }
}
