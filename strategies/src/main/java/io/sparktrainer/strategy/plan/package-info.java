/**
 * The planner behind strategy {@code auto}: what each strategy takes on every rank in memory and
 * communication, computed without a device, and the choice that follows from it.
 */
@NullMarked
package io.sparktrainer.strategy.plan;

import org.jspecify.annotations.NullMarked;
