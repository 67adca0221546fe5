package io.sparktrainer.strategy;

/**
 * What {@code fsdp} cuts into pieces, one per rank (Zhao et al., VLDB 2023; Rajbhandari et al., SC
 * 2020). N is the number of ranks, P the number of parameters.
 */
public enum ShardingStrategy {
  /**
   * Parameters, gradients and optimizer state. A unit's parameters are gathered before its forward,
   * freed after it, and gathered again before its backward.
   */
  FULL_SHARD(true),
  /**
   * The same, but gathered parameters stay from forward to backward: one gather less per unit and
   * step, for the memory of all parameters.
   */
  SHARD_GRAD_OP(false),
  /** Nothing: every rank holds the whole model, and gradients are averaged. */
  NO_SHARD(false),
  /**
   * {@link #FULL_SHARD} inside groups of ranks, replicas of each piece across the groups: gathers
   * stay inside a group, which is best one host.
   */
  HYBRID_SHARD(true);

  private final boolean freesAfterForward;

  ShardingStrategy(boolean freesAfterForward) {
    this.freesAfterForward = freesAfterForward;
  }

  /** Whether a unit's gathered parameters are freed between its forward and its backward. */
  public boolean freesAfterForward() {
    return freesAfterForward;
  }
}
