/**
 * From DataFrames to tensors: schemas, partition reading, keeping, shuffling, and batches in direct
 * memory.
 *
 * <p>{@link io.sparktrainer.data.Datasets} is the door on the driver, {@link
 * io.sparktrainer.data.RankReader} the one in a task.
 */
@NullMarked
package io.sparktrainer.data;

import org.jspecify.annotations.NullMarked;
