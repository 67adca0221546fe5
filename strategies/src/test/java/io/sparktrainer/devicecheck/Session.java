package io.sparktrainer.devicecheck;

import io.sparktrainer.comm.Communicator;
import io.sparktrainer.devicecheck.Workload.Size;
import io.sparktrainer.engine.Strategies;
import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.Losses;
import io.sparktrainer.optim.Optimizer;
import io.sparktrainer.optim.OptimizerSpec;
import io.sparktrainer.strategy.ComputeOptions;
import io.sparktrainer.strategy.GradientSync;
import io.sparktrainer.strategy.ParallelStrategy;
import io.sparktrainer.strategy.StrategySpec;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Rng;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;

/** One model in training on one batch, again and again. */
final class Session implements AutoCloseable {
  private static final double LEARNING_RATE = 1e-3;

  private final ParallelStrategy strategy;
  private final Optimizer optimizer;
  private final List<Tensor> batch;

  Session(
      Workload workload, Size size, StrategySpec spec, ComputeOptions options, Communicator group) {
    Rng.seed(1);
    this.strategy = Strategies.create(spec, () -> workload.model(size), group, options);
    this.optimizer = OptimizerSpec.adamW().build().create(strategy.trainable());
    try (var scope = NativeScope.open()) {
      this.batch = List.of(onDevice(workload.input(size)), onDevice(workload.target(size)));
    }
  }

  private Tensor onDevice(Tensor tensor) {
    return NativeScope.keep(tensor.to(strategy.device().toNative(), tensor.scalar_type()));
  }

  /** One step, whose work may still go on at the device. */
  void step() {
    try (var scope = NativeScope.open()) {
      forwardBackward();
      update();
    }
  }

  /** One step, and the loss before it. */
  double loss() {
    try (var scope = NativeScope.open()) {
      double loss = forwardBackward().item_double();
      update();
      return loss;
    }
  }

  private Tensor forwardBackward() {
    strategy.zeroGrad();
    return strategy.forwardBackward(
        new Tensor[] {batch.get(0)}, batch.get(1), Losses.CROSS_ENTROPY, 1, GradientSync.REDUCE);
  }

  private void update() {
    if (strategy.unscaleGradients()) {
      optimizer.step(LEARNING_RATE);
    }
  }

  Block model() {
    return strategy.model();
  }

  /** In the caller's scope. */
  Map<String, Tensor> state() {
    return strategy.fullState();
  }

  Tensor output() {
    return strategy.predict(batch.get(0));
  }

  @Override
  public void close() {
    batch.forEach(Tensor::close);
    optimizer.close();
    strategy.close();
  }
}
