package io.sparktrainer.strategy.ddp;

import io.sparktrainer.comm.Communicator;
import io.sparktrainer.comm.GlooCommunicator;
import io.sparktrainer.comm.Rendezvous;
import io.sparktrainer.comm.testing.RankProcesses;
import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.Losses;
import io.sparktrainer.nn.Mlp;
import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.strategy.GradientSync;
import io.sparktrainer.torch.Gradients;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Rng;
import io.sparktrainer.torch.Tensors;
import io.sparktrainer.torch.Threads;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import org.bytedeco.pytorch.Tensor;

/**
 * Step time of our reducer against PyTorch's, in the same JVMs over the same Gloo: forward,
 * backward and reduction, in turns, medians of rank 0. Run {@code main} with the tests' class path;
 * the argument is the number of steps.
 */
final class BenchmarkReducer {
  private static final int WARM_UP = 10;
  private static final int ROWS = 32;

  private BenchmarkReducer() {}

  /** Starts two ranks and prints what rank 0 measured. */
  public static void main(String[] arguments) {
    String steps = arguments.length == 0 ? "60" : arguments[0];
    RankProcesses.run(2, 60, Rank.class, steps)
        .forEach(result -> result.lines("result ").forEach(System.out::println));
  }

  /** One rank. */
  static final class Rank {
    private final Rendezvous rendezvous;
    private final Communicator world;
    private final int steps;

    private Rank(Rendezvous rendezvous, Communicator world, int steps) {
      this.rendezvous = rendezvous;
      this.world = world;
      this.steps = steps;
    }

    public static void main(String[] arguments) {
      Rendezvous rendezvous = RankProcesses.rendezvous(arguments);
      Threads.use(1);
      try (Communicator world = GlooCommunicator.connect(rendezvous)) {
        Rank rank =
            new Rank(rendezvous, world, Integer.parseInt(RankProcesses.arguments(arguments)[0]));
        rank.measure("wide", 1024, Collections.nCopies(4, 1024));
        rank.measure("deep", 32, Collections.nCopies(150, 32));
      }
    }

    private void measure(String name, int in, List<Integer> hidden) {
      Communicator group = world.subGroup(name, 0, 1);
      Rng.seed(3);
      try (Block theirs = new Mlp(in, hidden, 10);
          var ours = new DdpStrategy(new Mlp(in, hidden, 10), group, DdpOptions.defaults());
          var c10d =
              new C10dReducer(
                  rendezvous, name, List.copyOf(theirs.parameters().values()), null, false);
          var scope = NativeScope.open()) {
        Tensor x = Tensors.of(new float[ROWS * in], ROWS, in);
        Tensor y = Tensors.of(new long[ROWS], ROWS);
        double[] oursMs = new double[steps];
        double[] theirsMs = new double[steps];
        for (int step = -WARM_UP; step < steps; step++) {
          ours.zeroGrad();
          theirs.parameters().values().forEach(Tensors::clearGrad);
          boolean oursFirst = step % 2 == 0;
          double first =
              time(oursFirst ? () -> ours(ours, x, y) : () -> theirs(theirs, c10d, x, y));
          double second =
              time(oursFirst ? () -> theirs(theirs, c10d, x, y) : () -> ours(ours, x, y));
          double mine = oursFirst ? first : second;
          double other = oursFirst ? second : first;
          if (step >= 0) {
            oursMs[step] = mine;
            theirsMs[step] = other;
          }
        }
        report(name, theirs.parameters().size(), oursMs, theirsMs);
      }
    }

    private double time(Runnable step) {
      world.barrier().await();
      long start = System.nanoTime();
      step.run();
      return (System.nanoTime() - start) / 1e6;
    }

    private static void ours(DdpStrategy strategy, Tensor x, Tensor y) {
      try (var scope = NativeScope.open()) {
        strategy.forwardBackward(new Tensor[] {x}, y, Losses.CROSS_ENTROPY, 1, GradientSync.REDUCE);
      }
    }

    private static void theirs(Block model, C10dReducer reducer, Tensor x, Tensor y) {
      try (var scope = NativeScope.open();
          var on = Gradients.on()) {
        reducer.beforeForward();
        reducer.backward(Losses.CROSS_ENTROPY.of(model.call(x), y));
      }
    }

    private void report(String name, int parameters, double[] ours, double[] theirs) {
      double mine = median(ours);
      double other = median(theirs);
      System.out.printf(
          Locale.ROOT,
          "result %s, %d parameters, rank %d of %d, %d steps: ours %.2f ms, c10d %.2f ms, ratio"
              + " %.3f%n",
          name,
          parameters,
          world.rank(),
          world.worldSize(),
          steps,
          mine,
          other,
          mine / other);
    }

    private static double median(double[] values) {
      double[] sorted = values.clone();
      Arrays.sort(sorted);
      return sorted[sorted.length / 2];
    }
  }
}
