package io.sparktrainer.engine;

import io.sparktrainer.comm.Communicator;
import io.sparktrainer.comm.GlooCommunicator;
import io.sparktrainer.comm.LocalCommunicator;
import io.sparktrainer.comm.testing.RankProcesses;
import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.Gpt;
import io.sparktrainer.nn.GptConfig;
import io.sparktrainer.nn.Losses;
import io.sparktrainer.nn.Mlp;
import io.sparktrainer.optim.Optimizer;
import io.sparktrainer.optim.OptimizerSpec;
import io.sparktrainer.strategy.ComputeOptions;
import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.strategy.FsdpOptions;
import io.sparktrainer.strategy.GradientSync;
import io.sparktrainer.strategy.ParallelStrategy;
import io.sparktrainer.strategy.StrategySpec;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Rng;
import io.sparktrainer.torch.Tensors;
import io.sparktrainer.torch.Threads;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.LocalDate;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.function.Supplier;
import org.bytedeco.pytorch.Tensor;

/**
 * Step times of all strategies on the same rows: none with as many threads as there are ranks, dp
 * with as many replicas, ddp and fsdp with a process and a thread per rank. Steps take turns;
 * medians of rank 0 are printed as a table in Markdown, with the date and the machine. Arguments:
 * ranks and steps, by default 2 and 30, and a file for the table.
 */
final class BenchmarkStrategies {
  private static final int WARM_UP = 5;
  private static final int TIMEOUT_SECONDS = 120;
  private static final int VOCAB = 256;
  private static final int CONTEXT = 128;
  private static final int MLP_IN = 512;

  private BenchmarkStrategies() {}

  public static void main(String[] arguments) throws IOException {
    int ranks = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 2;
    String steps = arguments.length > 1 ? arguments[1] : "30";
    List<String> table = new ArrayList<>();
    table.add(
        "%s, %s with %d processors, Java %s, %d ranks, %s steps"
            .formatted(
                LocalDate.now(ZoneOffset.UTC),
                processor(),
                Runtime.getRuntime().availableProcessors(),
                Runtime.version().feature(),
                ranks,
                steps));
    table.add("");
    table.add("| model | strategy | ms per step | none / strategy |");
    table.add("| --- | --- | --- | --- |");
    for (RankProcesses.Result ended :
        RankProcesses.run(ranks, TIMEOUT_SECONDS, Rank.class, steps)) {
      if (ended.exitCode() != 0) {
        throw new IllegalStateException(ended.output());
      }
      table.addAll(ended.lines("row "));
    }
    table.forEach(System.out::println);
    if (arguments.length > 2) {
      Files.write(Path.of(arguments[2]), table);
    }
  }

  /** What the system calls the processor. */
  private static String processor() throws IOException {
    try (var lines = Files.lines(Path.of("/proc/cpuinfo"))) {
      return lines
          .filter(line -> line.startsWith("model name"))
          .map(line -> line.substring(line.indexOf(':') + 1).strip())
          .findFirst()
          .orElse(System.getProperty("os.arch"));
    }
  }

  /** One way to train, with its times. */
  private record Contender(
      String name,
      int threads,
      ParallelStrategy strategy,
      Optimizer optimizer,
      List<Double> millis) {}

  /** One rank. */
  static final class Rank {
    private final Communicator world;
    private final int steps;

    private Rank(Communicator world, int steps) {
      this.world = world;
      this.steps = steps;
    }

    public static void main(String[] arguments) {
      try (Communicator world = GlooCommunicator.connect(RankProcesses.rendezvous(arguments))) {
        Rank rank = new Rank(world, Integer.parseInt(RankProcesses.arguments(arguments)[0]));
        rank.measure(
            "mlp 512-1024x4-10", () -> new Mlp(MLP_IN, List.of(1024, 1024, 1024, 1024), 10));
        rank.measure(
            "gpt width 128, 4 layers, 128 tokens",
            () ->
                new Gpt(
                    GptConfig.builder()
                        .vocab(VOCAB)
                        .context(CONTEXT)
                        .width(128)
                        .heads(4)
                        .layers(4)
                        .build()));
      }
    }

    private void measure(String name, Supplier<Block> model) {
      List<Contender> contenders = new ArrayList<>();
      int ranks = world.worldSize();
      if (world.rank() == 0) {
        contenders.add(
            contender("none", ranks, new StrategySpec.None(0), model, new LocalCommunicator()));
        contenders.add(
            contender("dp", ranks, StrategySpec.Dp.onCpu(ranks), model, new LocalCommunicator()));
      }
      for (StrategySpec spec :
          List.of(
              new StrategySpec.Ddp(ranks, DdpOptions.defaults()),
              new StrategySpec.Fsdp(ranks, FsdpOptions.defaults()))) {
        int[] everyone = java.util.stream.IntStream.range(0, ranks).toArray();
        Communicator group = world.subGroup(name + " " + spec.name(), everyone);
        contenders.add(contender(spec.name(), 1, spec, model, group));
      }
      for (int step = -WARM_UP; step < steps; step++) {
        for (Contender contender : contenders) {
          // Ranks without a part in it wait at the next one's barrier.
          if (contender.strategy().worldSize() > 1) {
            world.barrier().await();
          }
          double millis = step(contender);
          if (step >= 0) {
            contender.millis().add(millis);
          }
        }
      }
      if (world.rank() == 0) {
        report(name, contenders);
      }
      for (Contender contender : contenders) {
        contender.optimizer().close();
        contender.strategy().close();
      }
    }

    private Contender contender(
        String name, int threads, StrategySpec spec, Supplier<Block> model, Communicator group) {
      Rng.seed(1);
      Threads.use(threads);
      ParallelStrategy strategy = Strategies.create(spec, model, group, ComputeOptions.defaults());
      return new Contender(
          name,
          threads,
          strategy,
          OptimizerSpec.adamW().build().create(strategy.trainable()),
          new ArrayList<>());
    }

    private double step(Contender contender) {
      Threads.use(contender.threads());
      ParallelStrategy strategy = contender.strategy();
      int rows = strategy.worldSize() > 1 ? 1 : world.worldSize();
      try (var scope = NativeScope.open()) {
        boolean reads = strategy.model() instanceof Gpt;
        int batch = rows * (reads ? 8 : 64);
        Tensor x =
            reads
                ? Tensors.of(new long[batch * CONTEXT], batch, CONTEXT)
                : Tensors.of(new float[batch * MLP_IN], batch, MLP_IN);
        Tensor y =
            reads
                ? Tensors.of(new long[batch * CONTEXT], batch, CONTEXT)
                : Tensors.of(new long[batch], batch);
        long start = System.nanoTime();
        strategy.zeroGrad();
        strategy.forwardBackward(new Tensor[] {x}, y, Losses.CROSS_ENTROPY, 1, GradientSync.REDUCE);
        contender.optimizer().step(1e-4);
        return (System.nanoTime() - start) / 1e6;
      }
    }

    private static void report(String model, List<Contender> contenders) {
      double none = median(contenders.get(0).millis());
      for (Contender contender : contenders) {
        double millis = median(contender.millis());
        System.out.printf(
            Locale.ROOT,
            "row | %s | %s | %.2f | %.2f |%n",
            model,
            contender.name(),
            millis,
            none / millis);
      }
    }

    private static double median(List<Double> values) {
      return values.stream().sorted().skip(values.size() / 2).findFirst().orElseThrow();
    }
  }
}
