/**
 * Fully sharded data parallel: parameters, gradients and optimizer state in flat shards, one per
 * rank; units of the model are gathered for the time they are used.
 */
@NullMarked
package io.sparktrainer.strategy.fsdp;

import org.jspecify.annotations.NullMarked;
