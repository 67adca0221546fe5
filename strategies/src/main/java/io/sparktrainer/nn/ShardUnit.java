package io.sparktrainer.nn;

/**
 * Marks a {@link Block} whose parameters a sharding strategy gathers and frees together, such as
 * one transformer block. Its parameters are only used while the block is being called.
 */
public interface ShardUnit {}
