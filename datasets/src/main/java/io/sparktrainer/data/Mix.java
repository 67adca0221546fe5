package io.sparktrainer.data;

/** The finaliser of SplitMix64 (Steele, Lea, Flood 2014) as a hash for seeds. */
final class Mix {
  private static final long GOLDEN = 0x9E3779B97F4A7C15L;

  private Mix() {}

  static long mix(long value) {
    long z = value + GOLDEN;
    z = (z ^ (z >>> 30)) * 0xBF58476D1CE4E5B9L;
    z = (z ^ (z >>> 27)) * 0x94D049BB133111EBL;
    return z ^ (z >>> 31);
  }

  static long mix(long first, long second) {
    return mix(mix(first) ^ second);
  }

  static long mix(long first, long second, long third) {
    return mix(mix(first, second) ^ third);
  }
}
