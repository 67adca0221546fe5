package io.sparktrainer.strategy.plan;

import io.sparktrainer.strategy.StrategySpec;

/**
 * One way to train, with what it takes.
 *
 * @param label what distinguishes it, in a configuration's words
 * @param spec the strategy with its options
 * @param cost memory of a rank, and communication
 * @param fits whether the memory fits a rank's device
 */
public record PlanRow(String label, StrategySpec spec, Cost cost, boolean fits) {}
