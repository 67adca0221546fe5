package io.sparktrainer.spark;

import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.optim.OptimizerSpec;
import io.sparktrainer.spark.config.ModelSpec;
import io.sparktrainer.spark.config.TrainerConfig;
import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.strategy.FsdpOptions;
import io.sparktrainer.strategy.StrategySpec;
import io.sparktrainer.strategy.plan.ModelOutline;
import java.util.List;
import org.junit.jupiter.api.Test;

class TestPredictedMemory {
  /** 2^28 parameters and some: 1 GiB. */
  private static final int SIDE = 1 << 14;

  private static final ModelShape SHAPE = ModelShape.of(List.of((long) SIDE), 1);

  private static void require(StrategySpec strategy, double gibibytes) {
    TrainerConfig config =
        TrainerConfig.builder()
            .strategy(strategy)
            .data(Configs.halves().build())
            .model(new ModelSpec.Mlp(SIDE))
            .optimizer(OptimizerSpec.adam().build())
            .build();
    ModelOutline model =
        ModelOutline.of(
            () -> Models.create(config.model(), SHAPE, 1), PredictedMemory.units(config));
    PredictedMemory.onHost(model, config, strategy, 2)
        .requireFits(2, (long) (gibibytes * (1L << 30)));
  }

  @Test
  void aModelThatDoesNotFitIsRefusedWithFigures() {
    StrategySpec ddp = new StrategySpec.Ddp(2, DdpOptions.defaults());
    assertThatCode(() -> require(ddp, 10.01)).doesNotThrowAnyException();
    assertThatThrownBy(() -> require(ddp, 9.5))
        .isInstanceOf(IllegalStateException.class)
        .hasMessage(
            "Cannot train the model: expected at most 9.5 GiB, which this host has free, got 10.0 GiB for 2 ranks of 5.0 GiB each (whole model 1.0; in a step parameters 1.0, gradients 1.0, optimizer 2.0, buckets 1.0, copies 0.0), before any activations. Make the model smaller, use hosts with more memory, or strategy auto.");
  }

  @Test
  void ofAShardedModelEachRankNeedsAPart() {
    StrategySpec fsdp =
        new StrategySpec.Fsdp(
            2,
            FsdpOptions.builder()
                .wrapPolicy(new io.sparktrainer.strategy.WrapPolicy.WholeModel())
                .build());
    // 2 for the shards of parameters, gradients and states, 2 while it is whole.
    assertThatCode(() -> require(fsdp, 8.01)).doesNotThrowAnyException();
    assertThatThrownBy(() -> require(fsdp, 7.9)).hasMessageContaining("for 2 ranks of 4.0 GiB");
  }
}
