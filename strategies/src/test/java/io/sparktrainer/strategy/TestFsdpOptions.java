package io.sparktrainer.strategy;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.torch.DType;
import java.util.Set;
import org.junit.jupiter.api.Test;

class TestFsdpOptions {
  @Test
  void defaultsAreThoseOfPyTorch() {
    FsdpOptions options = FsdpOptions.defaults();
    assertThat(options.shardingStrategy()).isEqualTo(ShardingStrategy.FULL_SHARD);
    assertThat(options.backwardPrefetch()).isEqualTo(BackwardPrefetch.BACKWARD_PRE);
    assertThat(options.forwardPrefetch()).isFalse();
    assertThat(options.limitAllGathers()).isTrue();
    assertThat(options.cpuOffload()).isFalse();
    assertThat(options.mixedPrecision()).isEqualTo(MixedPrecision.NONE);
  }

  @Test
  void aShardGroupNeedsHybridShard() {
    assertThatThrownBy(() -> FsdpOptions.builder().shardGroupSize(2).build())
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage(
            "Cannot use shard_group_size 2 with FULL_SHARD: expected HYBRID_SHARD. Leave one of them out.");
    FsdpOptions.Builder hybrid =
        FsdpOptions.builder().shardingStrategy(ShardingStrategy.HYBRID_SHARD);
    assertThatThrownBy(() -> hybrid.shardGroupSize(0).build())
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("Cannot use shard_group_size 0: expected at least 1 rank.");
    FsdpOptions two = hybrid.shardGroupSize(2).build();
    assertThat(new StrategySpec.Fsdp(4, two).workers()).isEqualTo(4);
    assertThatThrownBy(() -> new StrategySpec.Fsdp(3, two))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage(
            "Cannot use shard_group_size 2 with 3 workers: expected a divisor of the number of workers.");
  }

  @Test
  void offloadNeedsShards() {
    assertThatThrownBy(
            () ->
                FsdpOptions.builder()
                    .shardingStrategy(ShardingStrategy.NO_SHARD)
                    .cpuOffload(true)
                    .build())
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageStartingWith("Cannot use cpu_offload with NO_SHARD");
  }

  @Test
  void typesAreFloatingPoint() {
    assertThatThrownBy(() -> new MixedPrecision(DType.INT8, null, null))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("Cannot use param_dtype int8: expected a floating-point type.");
    MixedPrecision bf16 = new MixedPrecision(DType.BFLOAT16, null, null);
    assertThat(bf16.reduced(DType.FLOAT32)).isEqualTo(DType.BFLOAT16);
    assertThat(bf16.gathered(DType.INT64)).isEqualTo(DType.INT64);
  }

  @Test
  void policiesNeedSomethingToMatch() {
    assertThatThrownBy(() -> new WrapPolicy.MinParameters(0))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("Cannot wrap by size: expected min_parameters of at least 1, got 0.");
    assertThatThrownBy(() -> new WrapPolicy.ClassNames(Set.of()))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("Cannot wrap by class: expected at least one class name, got none.");
  }
}
