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
import io.sparktrainer.strategy.FsdpOptions;
import io.sparktrainer.strategy.GradientSync;
import io.sparktrainer.testing.Memory;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import io.sparktrainer.torch.Threads;
import org.bytedeco.pytorch.Tensor;

/** One rank, in a process of its own, that trains a large model and reports what it holds. */
final class MemoryRank {
  static final int LAYERS = 4;

  /** So that half a layer has 32 MiB, from where on glibc gives every freed piece back at once. */
  static final int WIDTH = 4096;

  /** Parameters of the model. */
  static final long PARAMETERS = (long) LAYERS * WIDTH * WIDTH;

  private MemoryRank() {}

  static final class Layer extends Block implements ShardUnit {
    private final Linear fc = child("fc", Linear.withoutBias(WIDTH, WIDTH));

    @Override
    protected Tensor forward(Tensor... inputs) {
      return inputs[0].add(fc.call(inputs[0]).tanh());
    }
  }

  static final class Layers extends Block {
    private final Layer[] layers = new Layer[LAYERS];

    Layers() {
      for (int i = 0; i < LAYERS; i++) {
        layers[i] = child("layer" + i, new Layer());
      }
    }

    @Override
    protected Tensor forward(Tensor... inputs) {
      Tensor x = inputs[0];
      for (Layer layer : layers) {
        x = layer.call(x);
      }
      return x;
    }
  }

  /** Prints the bytes of the ledger and by how much the resident size has grown. */
  public static void main(String[] arguments) {
    Threads.use(1);
    Communicator communicator = GlooCommunicator.connect(RankProcesses.rendezvous(arguments));
    warmUp();
    long before = Memory.residentBytes();
    try (var strategy = new FsdpStrategy(layers(), communicator, FsdpOptions.defaults());
        Optimizer optimizer = OptimizerSpec.adamW().build().create(strategy.trainable())) {
      for (int step = 0; step < 2; step++) {
        strategy.zeroGrad();
        try (var scope = NativeScope.open()) {
          Tensor x = Tensors.zeros(DType.FLOAT32, Device.CPU, 1, WIDTH).fill_(Tensors.scalar(0.1));
          strategy.forwardBackward(new Tensor[] {x}, x, Losses.MSE, 1, GradientSync.REDUCE);
        }
        optimizer.step(1e-3);
      }
      long optimizerBytes = optimizer.state().values().stream().mapToLong(t -> t.numel() * 4).sum();
      FsdpMemory memory = strategy.memory();
      System.out.println(
          "bytes "
              + (memory.parameterBytes() + memory.gradientBytes() + optimizerBytes)
              + " "
              + memory.transientBytes()
              + " "
              + memory.peakTransientBytes()
              + " "
              + (Memory.residentBytes() - before));
    }
  }

  /** In a scope, so that no garbage keeps what the parameters started as. */
  private static Layers layers() {
    try (var scope = NativeScope.open()) {
      return new Layers();
    }
  }

  /** Libraries and thread pools that a first computation brings in. */
  private static void warmUp() {
    try (Block small = new Linear(64, 64);
        var scope = NativeScope.open()) {
      small.call(Tensors.zeros(DType.FLOAT32, Device.CPU, 64, 64)).sum().backward();
    }
  }
}
