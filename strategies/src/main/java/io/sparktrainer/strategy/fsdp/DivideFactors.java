package io.sparktrainer.strategy.fsdp;

/**
 * How a division by the number of ranks is split around a sum of float16 numbers: dividing only
 * after it could overflow, only before it could lose small numbers.
 *
 * @param before divisor of each rank's summand
 * @param after divisor of the sum; the product of both is the number of ranks
 */
record DivideFactors(double before, double after) {
  /** Two factors near the square root, the first a power of two (as PyTorch splits it). */
  static DivideFactors of(int ranks) {
    int factor = 1;
    while (ranks % factor == 0 && ranks / (double) factor > factor) {
      factor *= 2;
    }
    return new DivideFactors(factor, ranks / (double) factor);
  }
}
