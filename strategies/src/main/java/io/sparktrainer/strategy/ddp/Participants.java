package io.sparktrainer.strategy.ddp;

/**
 * Who takes part in one step with data.
 *
 * @param divisor what the sum over all ranks is divided by
 * @param lowestActive lowest rank with data
 */
record Participants(int divisor, int lowestActive) {}
