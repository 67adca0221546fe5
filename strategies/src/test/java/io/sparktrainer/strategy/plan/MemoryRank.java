package io.sparktrainer.strategy.plan;

import io.sparktrainer.comm.GlooCommunicator;
import io.sparktrainer.comm.Rendezvous;
import io.sparktrainer.comm.testing.RankProcesses;
import io.sparktrainer.engine.Strategies;
import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.Linear;
import io.sparktrainer.nn.Losses;
import io.sparktrainer.nn.ShardUnit;
import io.sparktrainer.optim.Optimizer;
import io.sparktrainer.optim.OptimizerSpec;
import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.strategy.FsdpOptions;
import io.sparktrainer.strategy.GradientSync;
import io.sparktrainer.strategy.ParallelStrategy;
import io.sparktrainer.strategy.ShardingStrategy;
import io.sparktrainer.strategy.StrategySpec;
import io.sparktrainer.testing.ProcessGrowth;
import io.sparktrainer.testing.Stack;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import io.sparktrainer.torch.Threads;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * One rank as a JVM of its own: trains a model of 218 MB for some steps and prints by how much the
 * process has grown, at the end of a step and at most.
 */
final class MemoryRank {
  static final int LAYERS = 13;
  static final int WIDTH = 2048;
  private static final int UNUSUAL_STEPS = 2;
  private static final int STEPS = 2;

  private MemoryRank() {}

  /** One unit of {@link #WIDTH} squared parameters. */
  static final class Layer extends Block implements ShardUnit {
    private final Linear linear = child("linear", Linear.withoutBias(WIDTH, WIDTH));

    @Override
    protected Tensor forward(Tensor... inputs) {
      return torch.relu(linear.call(inputs));
    }
  }

  static Stack model(int layers) {
    return new Stack(layers, Layer::new);
  }

  static StrategySpec spec(String name, int workers) {
    return switch (name) {
      case "none" -> new StrategySpec.None(0);
      case "ddp" -> new StrategySpec.Ddp(workers, DdpOptions.defaults());
      case "ddp-view" ->
          new StrategySpec.Ddp(workers, DdpOptions.builder().gradientAsBucketView(true).build());
      default ->
          new StrategySpec.Fsdp(
              workers,
              FsdpOptions.builder().shardingStrategy(ShardingStrategy.valueOf(name)).build());
    };
  }

  public static void main(String[] args) {
    Rendezvous rendezvous = RankProcesses.rendezvous(args);
    Threads.use(1);
    StrategySpec spec = spec(RankProcesses.arguments(args)[0], rendezvous.worldSize());
    // A small training first: libraries, threads and sockets are there before the count begins.
    try (NativeScope scope = NativeScope.open();
        Stack small = model(1);
        Optimizer optimizer = OptimizerSpec.adamW().build().create(small.parameters())) {
      step(small, optimizer);
    }
    var communicator = GlooCommunicator.connect(rendezvous);
    ProcessGrowth growth = ProcessGrowth.start();
    try (ParallelStrategy strategy = Strategies.create(spec, () -> model(LAYERS), communicator)) {
      run(strategy, growth);
    }
  }

  private static void step(Block model, Optimizer optimizer) {
    Tensor output = model.call(Tensors.zeros(DType.FLOAT32, Device.CPU, 1, WIDTH));
    output.sum().backward();
    optimizer.step(0);
  }

  private static void run(ParallelStrategy strategy, ProcessGrowth growth) {
    try (Optimizer optimizer = OptimizerSpec.adamW().build().create(strategy.trainable())) {
      // Construction, the first step, and the second, in which ddp lays its buckets out anew, hold
      // more for a moment; the peak is that of the steps after.
      for (int i = 0; i < UNUSUAL_STEPS; i++) {
        train(strategy, optimizer);
      }
      growth.resetPeak();
      for (int i = 0; i < STEPS; i++) {
        train(strategy, optimizer);
      }
      System.out.println("peak " + growth.peak());
      System.out.println("held " + growth.held());
    }
  }

  private static void train(ParallelStrategy strategy, Optimizer optimizer) {
    strategy.zeroGrad();
    try (var scope = NativeScope.open()) {
      Tensor[] inputs = {Tensors.zeros(DType.FLOAT32, Device.CPU, 2, WIDTH)};
      Tensor target = Tensors.zeros(DType.FLOAT32, Device.CPU, 2, WIDTH);
      Tensor unused = strategy.forwardBackward(inputs, target, Losses.MSE, 1, GradientSync.REDUCE);
    }
    optimizer.step(1e-3);
  }
}
