/**
 * Distributed data parallel: one replica per rank, bucketed gradients reduced while backward runs.
 */
@NullMarked
package io.sparktrainer.strategy.ddp;

import org.jspecify.annotations.NullMarked;
