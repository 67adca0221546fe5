package io.sparktrainer.strategy.fsdp;

import io.sparktrainer.comm.Communicator;
import io.sparktrainer.comm.GlooCommunicator;
import io.sparktrainer.comm.testing.RankProcesses;
import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.Linear;
import io.sparktrainer.nn.Losses;
import io.sparktrainer.nn.ShardUnit;
import io.sparktrainer.optim.Optimizer;
import io.sparktrainer.optim.OptimizerSpec;
import io.sparktrainer.strategy.ComputeOptions;
import io.sparktrainer.strategy.FsdpOptions;
import io.sparktrainer.strategy.GradientSync;
import io.sparktrainer.testing.PageMap;
import io.sparktrainer.testing.ProcessGrowth;
import io.sparktrainer.testing.Stack;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import io.sparktrainer.torch.Threads;
import java.util.stream.IntStream;
import org.bytedeco.pytorch.Tensor;

/**
 * One rank, in a process of its own, that trains a large model and reports what it holds. Argument:
 * where the shards live.
 */
final class MemoryRank {
  static final int LAYERS = 16;
  static final int WIDTH = 2048;

  /** Parameters of the model. */
  static final long PARAMETERS = (long) LAYERS * WIDTH * WIDTH;

  private static final int STEPS = 2;

  private MemoryRank() {}

  /**
   * What a rank printed, in bytes.
   *
   * @param ledger shards and optimizer state, as counted by strategy and optimizer
   * @param transients as counted by the strategy
   * @param host resident pages of the tensors that are on the host by the strategy's word
   * @param held growth of the process at the end of a step
   * @param peak growth of the process at its largest, in steps after the first two
   */
  record Report(long ledger, long transients, long host, long held, long peak, double loss) {
    static Report parse(RankProcesses.Result result) {
      String[] words = result.lines("report ").get(0).split(" ", -1);
      return new Report(
          Long.parseLong(words[0]),
          Long.parseLong(words[1]),
          Long.parseLong(words[2]),
          Long.parseLong(words[3]),
          Long.parseLong(words[4]),
          Double.parseDouble(words[5]));
    }

    /** What is left for the device. */
    long heldOnDevice() {
      return held - host;
    }

    long peakOnDevice() {
      return peak - host;
    }
  }

  static final class Layer extends Block implements ShardUnit {
    private final Linear fc;

    private Layer(int width) {
      this.fc = child("fc", Linear.withoutBias(width, width));
    }

    @Override
    protected Tensor forward(Tensor... inputs) {
      return inputs[0].add(fc.call(inputs[0]).tanh());
    }
  }

  static Stack model(int layers, int width) {
    return new Stack(layers, () -> new Layer(width));
  }

  public static void main(String[] arguments) {
    ShardHome home = ShardHome.valueOf(RankProcesses.arguments(arguments)[0]);
    Threads.use(1);
    Communicator world = GlooCommunicator.connect(RankProcesses.rendezvous(arguments));
    int[] everyone = IntStream.range(0, world.worldSize()).toArray();
    // A small training first: libraries, threads and sockets are there before the count begins.
    try (var small = strategy(2, 64, world.subGroup("small", everyone), home);
        Optimizer optimizer = OptimizerSpec.adamW().build().create(small.trainable())) {
      train(small, optimizer, 64);
    }
    ProcessGrowth growth = ProcessGrowth.start();
    try (var strategy = strategy(LAYERS, WIDTH, world, home);
        Optimizer optimizer = OptimizerSpec.adamW().build().create(strategy.trainable())) {
      train(strategy, optimizer, WIDTH);
      growth.resetPeak();
      double loss = train(strategy, optimizer, WIDTH);
      report(strategy, optimizer, growth, loss);
    }
  }

  private static FsdpStrategy strategy(int layers, int width, Communicator group, ShardHome home) {
    Block model;
    // In a scope, so that no garbage keeps what the parameters started as.
    try (var scope = NativeScope.open()) {
      model = model(layers, width);
    }
    FsdpOptions options = FsdpOptions.builder().cpuOffload(home == ShardHome.HOST).build();
    return new FsdpStrategy(model, group, options, ComputeOptions.defaults(), home);
  }

  /** Returns the last step's loss. */
  private static double train(FsdpStrategy strategy, Optimizer optimizer, int width) {
    double loss = 0;
    for (int step = 0; step < STEPS; step++) {
      strategy.zeroGrad();
      try (var scope = NativeScope.open()) {
        Tensor x = Tensors.zeros(DType.FLOAT32, Device.CPU, 1, width).fill_(Tensors.scalar(0.1));
        loss =
            strategy
                .forwardBackward(new Tensor[] {x}, x, Losses.MSE, 1, GradientSync.REDUCE)
                .item_double();
      }
      optimizer.step(1e-3);
    }
    return loss;
  }

  private static void report(
      FsdpStrategy strategy, Optimizer optimizer, ProcessGrowth growth, double loss) {
    long peak = growth.peak();
    long held = growth.held();
    FsdpMemory memory = strategy.memory();
    long state = optimizer.state().values().stream().mapToLong(t -> t.numel() * 4).sum();
    long host = 0;
    if (memory.hostBytes() > 0) {
      try (var scope = NativeScope.open()) {
        for (Tensor shard : strategy.trainable().values()) {
          host += PageMap.residentBytes(shard) + PageMap.residentBytes(shard.grad());
        }
        for (Tensor each : optimizer.state().values()) {
          host += PageMap.residentBytes(each);
        }
      }
    }
    System.out.printf(
        "report %d %d %d %d %d %s%n",
        memory.parameterBytes() + memory.gradientBytes() + state,
        memory.transientBytes(),
        host,
        held,
        peak,
        loss);
  }
}
