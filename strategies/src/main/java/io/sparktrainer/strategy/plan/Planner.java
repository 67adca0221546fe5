package io.sparktrainer.strategy.plan;

import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.strategy.FsdpOptions;
import io.sparktrainer.strategy.ShardingStrategy;
import io.sparktrainer.strategy.StrategySpec;
import io.sparktrainer.strategy.plan.DecisionTree.Answer;
import io.sparktrainer.strategy.plan.DecisionTree.Decision;
import io.sparktrainer.strategy.plan.TreeFacts.Graph;
import io.sparktrainer.torch.Device;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;

/** Predicts what each strategy takes for one model on given machines, and chooses. */
public final class Planner {
  private final ModelOutline model;
  private final StepOutline step;
  private final Machines machines;

  /**
   * @param model described with the wrap policy of the {@code fsdp} options to plan with
   */
  public Planner(ModelOutline model, StepOutline step, Machines machines) {
    this.model = model;
    this.step = step;
    this.machines = machines;
  }

  /**
   * What a strategy takes on these machines.
   *
   * @throws IllegalArgumentException if {@code spec} is {@code auto}, or its shard groups do not
   *     divide its ranks
   */
  public Cost cost(StrategySpec spec) {
    Cost cost = deviceCost(spec);
    return machines.type() == Device.Type.CPU
        ? new Cost(cost.memory().onHost(), cost.sentBytesPerStep())
        : cost;
  }

  private Cost deviceCost(StrategySpec spec) {
    ReplicaCosts replicas = new ReplicaCosts(model, step);
    if (spec instanceof StrategySpec.None) {
      return replicas.none();
    }
    if (spec instanceof StrategySpec.Dp dp) {
      return dp.deviceIds().isEmpty()
          ? replicas.dpOnHost(dp.replicas())
          : replicas.dpOnDevices(dp.replicas());
    }
    if (spec instanceof StrategySpec.Ddp ddp) {
      return replicas.ddp(ddp.workers(), ddp.options());
    }
    if (spec instanceof StrategySpec.Fsdp fsdp) {
      ShardLayout layout = new ShardLayout(model.units(), fsdp.workers(), shardGroup(fsdp));
      FsdpOptions options = fsdp.options().withPrecision(step.precision());
      return new ShardedCosts(layout, options, step, model.bufferBytes()).cost();
    }
    throw new IllegalArgumentException(
        "Cannot predict the cost of %s: expected none, dp, ddp or fsdp.".formatted(spec.name()));
  }

  private int shardGroup(StrategySpec.Fsdp fsdp) {
    Integer size = fsdp.options().shardGroupSize();
    return switch (fsdp.options().shardingStrategy()) {
      case FULL_SHARD, SHARD_GRAD_OP -> fsdp.workers();
      case NO_SHARD -> 1;
      case HYBRID_SHARD -> size == null ? Math.min(machines.ranksPerHost(), fsdp.workers()) : size;
    };
  }

  /**
   * Walks the decision tree, predicts every option, and takes the first that fits.
   *
   * @throws IllegalArgumentException if {@code auto} wants another number of ranks than there are
   */
  public Plan plan(StrategySpec.Auto auto) {
    if (auto.workers() != machines.ranks()) {
      throw new IllegalArgumentException(
          "Cannot plan %d workers: expected the %d ranks of the machines."
              .formatted(auto.workers(), machines.ranks()));
    }
    long onOneDevice = cost(new StrategySpec.None(0)).memory().peak();
    Decision decision =
        DecisionTree.decide(
            new TreeFacts(
                model.numel(),
                onOneDevice,
                machines.bytesPerRank(1),
                machines.hosts(),
                auto.workers(),
                auto.ddp().staticGraph() ? Graph.STATIC : Graph.DYNAMIC));
    List<PlanRow> rows = new ArrayList<>();
    rows.add(row("none", new StrategySpec.None(0)));
    if (auto.workers() > 1 && machines.hosts() == 1) {
      rows.add(row("dp, %d replicas".formatted(auto.workers()), dp(auto.workers())));
    }
    rows.addAll(ddpRows(auto));
    rows.addAll(fsdpRows(auto));
    return new Plan(model, step, machines, decision, rows, candidates(decision.answer(), auto));
  }

  private StrategySpec.Dp dp(int replicas) {
    return machines.type() == Device.Type.CPU
        ? StrategySpec.Dp.onCpu(replicas)
        : StrategySpec.Dp.onDevices(IntStream.range(0, replicas).boxed().toList());
  }

  /** The tree's answer and, should it not fit, what to try next, in this order. */
  private List<PlanRow> candidates(Answer answer, StrategySpec.Auto auto) {
    List<PlanRow> candidates = new ArrayList<>();
    switch (answer) {
      case NONE -> candidates.add(row("none", new StrategySpec.None(0)));
      case DDP -> {
        candidates.addAll(ddpRows(auto));
        candidates.addAll(fsdpRows(auto));
      }
      case FSDP -> {
        candidates.addAll(fsdpRows(auto));
        StrategySpec configured = new StrategySpec.Fsdp(auto.workers(), auto.fsdp());
        // What was configured comes first; the others follow as they need less.
        candidates.sort(
            (a, b) -> Boolean.compare(b.spec().equals(configured), a.spec().equals(configured)));
      }
    }
    return candidates;
  }

  private List<PlanRow> ddpRows(StrategySpec.Auto auto) {
    List<PlanRow> rows = new ArrayList<>();
    rows.add(row(label(auto.ddp()), new StrategySpec.Ddp(auto.workers(), auto.ddp())));
    if (!auto.ddp().gradientAsBucketView()) {
      DdpOptions views = withBucketView(auto.ddp());
      rows.add(row(label(views), new StrategySpec.Ddp(auto.workers(), views)));
    }
    return rows;
  }

  /** What is configured, and the other ways to shard, from what sends least to what needs least. */
  private List<PlanRow> fsdpRows(StrategySpec.Auto auto) {
    List<FsdpOptions> variants = new ArrayList<>();
    variants.add(sharding(auto.fsdp(), ShardingStrategy.SHARD_GRAD_OP, auto.fsdp().cpuOffload()));
    if (machines.hosts() > 1 && machines.ranksPerHost() > 1) {
      variants.add(sharding(auto.fsdp(), ShardingStrategy.HYBRID_SHARD, auto.fsdp().cpuOffload()));
    }
    variants.add(sharding(auto.fsdp(), ShardingStrategy.FULL_SHARD, auto.fsdp().cpuOffload()));
    if (machines.type() == Device.Type.CUDA && !auto.fsdp().cpuOffload()) {
      variants.add(sharding(auto.fsdp(), ShardingStrategy.FULL_SHARD, true));
    }
    if (!variants.contains(auto.fsdp())) {
      variants.add(0, auto.fsdp());
    }
    return variants.stream()
        .map(options -> row(label(options), new StrategySpec.Fsdp(auto.workers(), options)))
        .toList();
  }

  private PlanRow row(String label, StrategySpec spec) {
    Cost cost = cost(spec);
    boolean fits = cost.memory().peak() <= machines.bytesPerRank(spec.workers());
    return new PlanRow(label, spec, cost, fits);
  }

  private static String label(DdpOptions options) {
    return options.gradientAsBucketView() ? "ddp, gradient_as_bucket_view" : "ddp";
  }

  private static String label(FsdpOptions options) {
    String group = options.shardGroupSize() == null ? "" : " by " + options.shardGroupSize();
    return "fsdp, "
        + options.shardingStrategy()
        + group
        + (options.cpuOffload() ? ", cpu_offload" : "");
  }

  private static DdpOptions withBucketView(DdpOptions options) {
    return options.toBuilder().gradientAsBucketView(true).build();
  }

  private static FsdpOptions sharding(
      FsdpOptions options, ShardingStrategy strategy, boolean cpuOffload) {
    boolean sameStrategy = options.shardingStrategy() == strategy;
    return options.toBuilder()
        .shardingStrategy(strategy)
        .shardGroupSize(sameStrategy ? options.shardGroupSize() : null)
        .cpuOffload(cpuOffload)
        .build();
  }
}
