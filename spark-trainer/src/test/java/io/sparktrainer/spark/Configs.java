package io.sparktrainer.spark;

import io.sparktrainer.optim.OptimizerSpec;
import io.sparktrainer.spark.config.DataConfig;
import io.sparktrainer.spark.config.MetricsConfig;
import io.sparktrainer.spark.config.ModelSpec;
import io.sparktrainer.spark.config.TrainerConfig;
import io.sparktrainer.spark.config.TrainingConfig;
import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.strategy.StrategySpec;
import java.nio.file.Path;

/** Configurations for the columns of {@code Frames.halves}. */
final class Configs {
  private Configs() {}

  /** A small mlp on ddp ranks. */
  static TrainerConfig.Builder ddp(int workers, Path output) {
    return TrainerConfig.builder()
        .strategy(new StrategySpec.Ddp(workers, DdpOptions.defaults()))
        .data(halves().build())
        .model(new ModelSpec.Mlp(16))
        .optimizer(OptimizerSpec.adam().lr(0.05).build())
        .training(TrainingConfig.builder().epochs(3).batchSize(16).seed(3).build())
        .metrics(MetricsConfig.quiet())
        .output(output.toString());
  }

  static DataConfig.Builder halves() {
    return DataConfig.builder().features("x1", "x2").label("label").validation(0.2).seed(7);
  }
}
