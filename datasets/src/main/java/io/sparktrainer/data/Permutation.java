package io.sparktrainer.data;

/**
 * A seeded bijection of {@code [0, size)} that takes no memory: an alternating Feistel network over
 * the next power of two, walked until it falls inside (Black and Rogaway 2002, "Ciphers with
 * arbitrary finite domains"). At most two walks are expected per number.
 */
final class Permutation {
  private static final int ROUNDS = 8;

  private final long size;
  private final int lowBits;
  private final long lowMask;
  private final long highMask;
  private final long[] keys = new long[ROUNDS];

  Permutation(long size, long seed) {
    this.size = size;
    int bits = Math.max(2, 64 - Long.numberOfLeadingZeros(Math.max(0, size - 1)));
    this.lowBits = (bits + 1) / 2;
    this.lowMask = (1L << lowBits) - 1;
    this.highMask = (1L << (bits - lowBits)) - 1;
    for (int round = 0; round < ROUNDS; round++) {
      keys[round] = Mix.mix(seed, round);
    }
  }

  /** The number that stands at {@code place}. */
  long at(long place) {
    long value = place;
    do {
      long low = value & lowMask;
      long high = value >>> lowBits;
      for (int round = 0; round < ROUNDS; round += 2) {
        low ^= scramble(high, keys[round]) & lowMask;
        high ^= scramble(low, keys[round + 1]) & highMask;
      }
      value = high << lowBits | low;
    } while (value >= size);
    return value;
  }

  /** The place where {@code number} stands. */
  long placeOf(long number) {
    long value = number;
    do {
      long low = value & lowMask;
      long high = value >>> lowBits;
      for (int round = ROUNDS - 2; round >= 0; round -= 2) {
        high ^= scramble(low, keys[round + 1]) & highMask;
        low ^= scramble(high, keys[round]) & lowMask;
      }
      value = high << lowBits | low;
    } while (value >= size);
    return value;
  }

  private static long scramble(long half, long key) {
    long z = (half + key) * 0xBF58476D1CE4E5B9L;
    z = (z ^ (z >>> 29)) * 0x94D049BB133111EBL;
    return z >>> 31;
  }
}
