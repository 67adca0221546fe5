package io.sparktrainer.strategy.fsdp;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import io.sparktrainer.comm.Communicator;
import io.sparktrainer.comm.LocalCommunicator;
import io.sparktrainer.comm.testing.RankThreads;
import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.Init;
import io.sparktrainer.nn.Losses;
import io.sparktrainer.optim.Optimizer;
import io.sparktrainer.optim.OptimizerSpec;
import io.sparktrainer.strategy.ComputeOptions;
import io.sparktrainer.strategy.FsdpOptions;
import io.sparktrainer.strategy.GradientSync;
import io.sparktrainer.strategy.ParallelStrategy;
import io.sparktrainer.strategy.single.SingleStrategy;
import io.sparktrainer.testing.Values;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Rng;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import java.util.stream.IntStream;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorVector;
import org.bytedeco.pytorch.global.torch;
import org.jspecify.annotations.Nullable;

/** Trainings that can be compared: every rank's rows of every step are the same in all of them. */
final class Runs {
  static final int ROWS = 4;

  private Runs() {}

  /**
   * What a training left.
   *
   * @param losses of this rank's rows, per micro-batch
   * @param norms of the gradients before clipping, per step
   * @param state whole, on rank 0
   */
  record Outcome(List<Double> losses, List<Double> norms, Map<String, double[]> state) {}

  /**
   * How to train.
   *
   * @param accumulate micro-batches per step
   * @param clip largest norm, or null
   */
  record Recipe(OptimizerSpec optimizer, int steps, int accumulate, @Nullable Double clip) {
    static Recipe adamW(int steps) {
      return new Recipe(OptimizerSpec.adamW().lr(0.01).weightDecay(0.1).build(), steps, 1, null);
    }

    Recipe accumulating(int microBatches) {
      return new Recipe(optimizer, steps, microBatches, clip);
    }

    Recipe clipping(double norm) {
      return new Recipe(optimizer, steps, accumulate, norm);
    }
  }

  /** One process that sees the rows of {@code ranks} ranks in each micro-batch. */
  static Outcome alone(Supplier<Block> model, int ranks, Recipe recipe) {
    try (var strategy = new SingleStrategy(Models.seeded(0, model), new LocalCommunicator())) {
      return train(strategy, 0, ranks, recipe);
    }
  }

  /** Chooses what of a model a rank uses in a step. */
  @FunctionalInterface
  interface Choice<B> {
    void make(B model, int step, int rank);
  }

  /**
   * One process that takes the ranks' rows one after another, each with that rank's choice, and
   * updates once.
   */
  static <B extends Block> Outcome alone(
      Supplier<B> model, int ranks, Recipe recipe, Choice<B> choice) {
    B own = Models.seeded(0, model);
    try (var strategy = new SingleStrategy(own, new LocalCommunicator());
        Optimizer optimizer = recipe.optimizer().create(strategy.trainable())) {
      List<Double> losses = new ArrayList<>();
      for (int step = 0; step < recipe.steps(); step++) {
        strategy.zeroGrad();
        for (int rank = 0; rank < ranks; rank++) {
          choice.make(own, step, rank);
          losses.add(forwardBackward(strategy, step, rank, 1, 1.0 / ranks, GradientSync.REDUCE));
        }
        optimizer.step(optimizer.baseLearningRate());
      }
      return new Outcome(losses, List.of(), state(strategy));
    }
  }

  /** What one rank does with one strategy. */
  @FunctionalInterface
  interface Body<B, T> {
    T run(B model, FsdpStrategy strategy);
  }

  /**
   * Runs {@code body} once for each of {@code options}, on all ranks; ranks other than 0 start from
   * other values. Where they offload, shards have a home of their own as on a GPU, although the
   * device is the CPU. The outer list is by options, the inner one by rank.
   */
  static <B extends Block, T> List<List<T>> sharded(
      int ranks, Supplier<B> model, List<FsdpOptions> options, Body<B, T> body) {
    // One connection for all: each strategy gets a group that is split from it.
    List<List<T>> byRank =
        RankThreads.collect(
            ranks,
            communicator -> {
              List<T> results = new ArrayList<>();
              for (FsdpOptions each : options) {
                B own = Models.seeded(communicator.rank(), model);
                Communicator group =
                    communicator.subGroup(
                        "case" + results.size(), IntStream.range(0, ranks).toArray());
                ShardHome home = each.cpuOffload() ? ShardHome.HOST : ShardHome.DEVICE;
                try (var strategy =
                    new FsdpStrategy(own, group, each, ComputeOptions.defaults(), home)) {
                  results.add(body.run(own, strategy));
                }
              }
              return results;
            });
    List<List<T>> byOptions = new ArrayList<>();
    for (int i = 0; i < options.size(); i++) {
      int index = i;
      byOptions.add(byRank.stream().map(results -> results.get(index)).toList());
    }
    return byOptions;
  }

  /** Trains with each of {@code options}. */
  static List<List<Outcome>> sharded(
      int ranks, Supplier<Block> model, List<FsdpOptions> options, Recipe recipe) {
    return sharded(
        ranks, model, options, (own, strategy) -> train(strategy, strategy.rank(), 1, recipe));
  }

  /** Trains with each of {@code options} and a choice per step and rank. */
  static <B extends Block> List<List<Outcome>> sharded(
      int ranks, Supplier<B> model, List<FsdpOptions> options, Recipe recipe, Choice<B> choice) {
    return sharded(
        ranks,
        model,
        options,
        (own, strategy) -> {
          List<Double> losses = new ArrayList<>();
          try (Optimizer optimizer = recipe.optimizer().create(strategy.trainable())) {
            for (int step = 0; step < recipe.steps(); step++) {
              strategy.zeroGrad();
              choice.make(own, step, strategy.rank());
              losses.add(
                  forwardBackward(strategy, step, strategy.rank(), 1, 1, GradientSync.REDUCE));
              optimizer.step(optimizer.baseLearningRate());
            }
            return new Outcome(losses, List.of(), state(strategy));
          }
        });
  }

  /** Trains on the rows of ranks {@code first} to {@code first + count}. */
  static Outcome train(ParallelStrategy strategy, int first, int count, Recipe recipe) {
    List<Double> losses = new ArrayList<>();
    List<Double> norms = new ArrayList<>();
    try (Optimizer optimizer = recipe.optimizer().create(strategy.trainable())) {
      for (int step = 0; step < recipe.steps(); step++) {
        strategy.zeroGrad();
        for (int i = 0; i < recipe.accumulate(); i++) {
          boolean last = i == recipe.accumulate() - 1;
          losses.add(
              forwardBackward(
                  strategy,
                  step * recipe.accumulate() + i,
                  first,
                  count,
                  1.0 / recipe.accumulate(),
                  last ? GradientSync.REDUCE : GradientSync.ACCUMULATE));
        }
        if (recipe.clip() != null) {
          norms.add(strategy.clipGradNorm(recipe.clip()));
        }
        optimizer.step(optimizer.baseLearningRate());
      }
    }
    return new Outcome(losses, norms, state(strategy));
  }

  static double forwardBackward(
      ParallelStrategy strategy, int batch, int first, int count, double scale, GradientSync sync) {
    try (var scope = NativeScope.open()) {
      return strategy
          .forwardBackward(
              new Tensor[] {rows(batch, first, count, Models.IN)},
              rows(batch + 100_000, first, count, Models.OUT),
              Losses.MSE,
              scale,
              sync)
          .item_double();
    }
  }

  static Tensor rows(int batch, int first, int count, int width) {
    Tensor[] parts = new Tensor[count];
    for (int i = 0; i < count; i++) {
      Rng.seed(batch * 31L + first + i + 1);
      parts[i] = Init.normal(1, ROWS, width);
    }
    return torch.cat(new TensorVector(parts));
  }

  static Map<String, double[]> state(ParallelStrategy strategy) {
    try (var scope = NativeScope.open()) {
      Map<String, double[]> values = new LinkedHashMap<>();
      strategy.fullState().forEach((name, tensor) -> values.put(name, Values.of(tensor)));
      return values;
    }
  }

  static void assertClose(
      Map<String, double[]> actual, Map<String, double[]> expected, double tolerance) {
    assertThat(actual.keySet()).containsExactlyElementsOf(expected.keySet());
    expected.forEach(
        (name, values) ->
            assertThat(actual.get(name)).as(name).containsExactly(values, within(tolerance)));
  }
}
