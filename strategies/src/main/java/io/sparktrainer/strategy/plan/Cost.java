package io.sparktrainer.strategy.plan;

/**
 * What a strategy takes.
 *
 * @param memory on the rank that holds the most
 * @param sentBytesPerStep what one rank sends to its peers in one step, with ring collectives
 */
public record Cost(MemoryUse memory, long sentBytesPerStep) {}
