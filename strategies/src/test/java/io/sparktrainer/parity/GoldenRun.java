package io.sparktrainer.parity;

import io.sparktrainer.checkpoint.SafetensorsFile;
import io.sparktrainer.comm.Communicator;
import io.sparktrainer.engine.Strategies;
import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.Loss;
import io.sparktrainer.nn.Losses;
import io.sparktrainer.optim.Optimizer;
import io.sparktrainer.optim.OptimizerSpec;
import io.sparktrainer.strategy.ComputeOptions;
import io.sparktrainer.strategy.GradientSync;
import io.sparktrainer.strategy.ParallelStrategy;
import io.sparktrainer.strategy.StrategySpec;
import io.sparktrainer.strategy.UnevenInputs;
import io.sparktrainer.testing.Values;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Rng;
import io.sparktrainer.torch.Tensors;
import io.sparktrainer.torch.Threads;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;

/** One rank's side of a golden case. */
final class GoldenRun {
  private final GoldenCase golden;
  private final OptimizerSpec optimizerSpec;
  private final StrategySpec strategySpec;
  private final ComputeOptions compute;

  GoldenRun(GoldenCase golden) {
    this.golden = golden;
    this.optimizerSpec = GoldenSpecs.optimizer(golden.optimizer());
    StrategySpec spec = GoldenSpecs.strategy(golden.strategy(), golden.world());
    this.strategySpec = golden.isUneven() ? joining(spec) : spec;
    this.compute = ComputeOptions.defaults();
  }

  /** The case under another strategy, on another device. */
  GoldenRun(GoldenCase golden, StrategySpec strategySpec, Device device) {
    this.golden = golden;
    this.optimizerSpec = GoldenSpecs.optimizer(golden.optimizer());
    this.strategySpec = strategySpec;
    this.compute = ComputeOptions.builder().device(device).build();
  }

  /** Under PyTorch's join with its default divisor, the whole world. */
  private static StrategySpec joining(StrategySpec spec) {
    if (!(spec instanceof StrategySpec.Ddp ddp)) {
      throw GoldenSpecs.missing("unequal numbers of batches under " + spec.name());
    }
    return new StrategySpec.Ddp(
        ddp.workers(),
        ddp.options().toBuilder().unevenInputs(UnevenInputs.DIVIDE_BY_WORLD).build());
  }

  /**
   * What a rank has to show.
   *
   * @param losses per step, before the step's update
   * @param gradNorms per step, before clipping; empty without clipping
   * @param finalState the state dict after the last step; empty but on rank 0
   */
  record Result(List<Double> losses, List<Double> gradNorms, Map<String, double[]> finalState) {}

  Result run(Communicator communicator) throws IOException {
    Threads.use(1);
    Rng.seed(communicator.rank());
    try (var scope = NativeScope.open();
        ParallelStrategy strategy =
            Strategies.create(
                strategySpec, () -> model(communicator.rank()), communicator, compute);
        Optimizer optimizer = optimizerSpec.create(strategy.trainable());
        SafetensorsFile data = golden.data()) {
      Double maxNorm = golden.clipGradNorm();
      List<Double> losses = new ArrayList<>();
      List<Double> norms = new ArrayList<>();
      int own = golden.steps(communicator.rank());
      long all = strategy.beginEpoch(own);
      for (int step = 0; step < all; step++) {
        try (var inner = NativeScope.open()) {
          if (step < own) {
            losses.add(gradients(strategy, data, step));
          } else {
            strategy.zeroGrad();
            strategy.shadowStep();
          }
          if (maxNorm != null) {
            norms.add(strategy.clipGradNorm(maxNorm));
          }
          optimizer.step(optimizer.baseLearningRate());
        }
      }
      strategy.endEpoch();
      Map<String, double[]> finalState = new LinkedHashMap<>();
      strategy.fullState().forEach((name, tensor) -> finalState.put(name, Values.of(tensor)));
      return new Result(losses, norms, finalState);
    }
  }

  /** Starts from the case's weights; under ddp the other ranks have to get them from rank 0. */
  private Block model(int rank) {
    try (var scope = NativeScope.open()) {
      Map<String, Tensor> state = golden.initialState();
      Block model = GoldenModels.create(golden, state);
      if (rank == 0 || !(strategySpec instanceof StrategySpec.Ddp)) {
        model.state().forEach((name, tensor) -> Tensors.overwrite(tensor, state.get(name)));
      }
      return model;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** The forward and backward passes of one step. */
  private double gradients(ParallelStrategy strategy, SafetensorsFile data, int step)
      throws IOException {
    strategy.zeroGrad();
    double loss = 0;
    int count = golden.accumulate();
    for (int i = 0; i < count; i++) {
      String batch = "rank%d.batch%d.".formatted(strategy.rank(), step * count + i);
      Tensor value =
          strategy.forwardBackward(
              new Tensor[] {onDevice(data.read(batch + "x"))},
              onDevice(data.read(batch + "y")),
              LOSS,
              1.0 / count,
              i == count - 1 ? GradientSync.REDUCE : GradientSync.ACCUMULATE);
      loss += value.item_double() / count;
    }
    return loss;
  }

  private Tensor onDevice(Tensor tensor) {
    return tensor.to(compute.device().toNative(), tensor.scalar_type());
  }

  /** In float32, whatever the model computes in. */
  private static final Loss LOSS =
      (output, target) -> Losses.CROSS_ENTROPY.of(output.to(DType.FLOAT32.scalarType()), target);
}
