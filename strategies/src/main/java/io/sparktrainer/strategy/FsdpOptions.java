package io.sparktrainer.strategy;

import io.sparktrainer.torch.DType;
import org.jspecify.annotations.Nullable;

/**
 * Options of {@code fsdp}, with PyTorch's names, meanings and defaults.
 *
 * @param shardingStrategy what is cut into pieces
 * @param wrapPolicy which blocks are units
 * @param shardGroupSize for {@link ShardingStrategy#HYBRID_SHARD}, number of ranks among which a
 *     parameter is cut, a divisor of the world size; null for the ranks of one host
 * @param backwardPrefetch when the next unit's parameters are gathered during backward
 * @param forwardPrefetch during forward, the next unit's gather starts before this unit computes
 * @param limitAllGathers a prefetch reaches one unit ahead; otherwise it reaches as far as the pass
 *     goes, for the memory of all parameters
 * @param cpuOffload shards, their gradients and the optimizer's state are in pinned host memory; no
 *     difference where the device is the CPU
 * @param accumulateSharded micro-batches before the last of a step reduce their gradients too, and
 *     add up shards; otherwise they add up whole gradients, with no communication but more memory
 * @param mixedPrecision types of gathered parameters, of reductions and of buffers
 */
public record FsdpOptions(
    ShardingStrategy shardingStrategy,
    WrapPolicy wrapPolicy,
    @Nullable Integer shardGroupSize,
    BackwardPrefetch backwardPrefetch,
    boolean forwardPrefetch,
    boolean limitAllGathers,
    boolean cpuOffload,
    boolean accumulateSharded,
    MixedPrecision mixedPrecision) {
  public FsdpOptions {
    if (shardGroupSize != null) {
      if (shardingStrategy != ShardingStrategy.HYBRID_SHARD) {
        throw new IllegalArgumentException(
            "Cannot use shard_group_size %d with %s: expected HYBRID_SHARD. Leave one of them out."
                .formatted(shardGroupSize, shardingStrategy));
      }
      if (shardGroupSize < 1) {
        throw new IllegalArgumentException(
            "Cannot use shard_group_size " + shardGroupSize + ": expected at least 1 rank.");
      }
    }
    if (cpuOffload && shardingStrategy == ShardingStrategy.NO_SHARD) {
      throw new IllegalArgumentException(
          "Cannot use cpu_offload with NO_SHARD: expected a strategy that cuts parameters into shards. Use FULL_SHARD, SHARD_GRAD_OP or HYBRID_SHARD.");
    }
  }

  /** These options, computing in {@code precision} unless they name types themselves. */
  public FsdpOptions withPrecision(Precision precision) {
    if (precision == Precision.NONE || !mixedPrecision.equals(MixedPrecision.NONE)) {
      return this;
    }
    return withMixedPrecision(new MixedPrecision(precision.dtype(), DType.FLOAT32, null));
  }

  /** These options with other types. */
  public FsdpOptions withMixedPrecision(MixedPrecision types) {
    return toBuilder().mixedPrecision(types).build();
  }

  /** A builder that starts from these options. */
  public Builder toBuilder() {
    return new Builder()
        .shardingStrategy(shardingStrategy)
        .wrapPolicy(wrapPolicy)
        .shardGroupSize(shardGroupSize)
        .backwardPrefetch(backwardPrefetch)
        .forwardPrefetch(forwardPrefetch)
        .limitAllGathers(limitAllGathers)
        .cpuOffload(cpuOffload)
        .accumulateSharded(accumulateSharded)
        .mixedPrecision(mixedPrecision);
  }

  public static FsdpOptions defaults() {
    return builder().build();
  }

  public static Builder builder() {
    return new Builder();
  }

  /** Sets options by name; what is not set keeps its default. */
  public static final class Builder {
    private ShardingStrategy shardingStrategy = ShardingStrategy.FULL_SHARD;
    private WrapPolicy wrapPolicy = new WrapPolicy.MarkedBlocks();
    private @Nullable Integer shardGroupSize;
    private BackwardPrefetch backwardPrefetch = BackwardPrefetch.BACKWARD_PRE;
    private boolean forwardPrefetch;
    private boolean limitAllGathers = true;
    private boolean cpuOffload;
    private boolean accumulateSharded;
    private MixedPrecision mixedPrecision = MixedPrecision.NONE;

    public Builder shardingStrategy(ShardingStrategy value) {
      this.shardingStrategy = value;
      return this;
    }

    public Builder wrapPolicy(WrapPolicy value) {
      this.wrapPolicy = value;
      return this;
    }

    public Builder shardGroupSize(@Nullable Integer ranks) {
      this.shardGroupSize = ranks;
      return this;
    }

    public Builder backwardPrefetch(BackwardPrefetch value) {
      this.backwardPrefetch = value;
      return this;
    }

    public Builder forwardPrefetch(boolean value) {
      this.forwardPrefetch = value;
      return this;
    }

    public Builder limitAllGathers(boolean value) {
      this.limitAllGathers = value;
      return this;
    }

    public Builder cpuOffload(boolean value) {
      this.cpuOffload = value;
      return this;
    }

    public Builder accumulateSharded(boolean value) {
      this.accumulateSharded = value;
      return this;
    }

    public Builder mixedPrecision(MixedPrecision value) {
      this.mixedPrecision = value;
      return this;
    }

    public FsdpOptions build() {
      return new FsdpOptions(
          shardingStrategy,
          wrapPolicy,
          shardGroupSize,
          backwardPrefetch,
          forwardPrefetch,
          limitAllGathers,
          cpuOffload,
          accumulateSharded,
          mixedPrecision);
    }
  }
}
