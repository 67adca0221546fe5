package io.sparktrainer.spark;

import io.sparktrainer.optim.OptimizerSpec;
import io.sparktrainer.strategy.FsdpOptions;
import io.sparktrainer.strategy.StrategySpec;
import java.util.Locale;

/**
 * Memory that one rank needs for a model, without activations: all figures in bytes.
 *
 * @param parameters float32 parameters
 * @param gradients as large as the parameters
 * @param optimizer the optimizer's state
 * @param buckets ddp's gradient buckets, where gradients are not views of them
 */
record ModelMemory(double parameters, double gradients, double optimizer, double buckets) {
  private static final double GIB = 1024.0 * 1024 * 1024;

  static ModelMemory of(double parameterCount, OptimizerSpec optimizer, StrategySpec strategy) {
    double bytes = parameterCount * Float.BYTES;
    return new ModelMemory(bytes, bytes, tensors(optimizer) * bytes, copies(strategy) * bytes);
  }

  /** Tensors of a parameter's size that the optimizer keeps for it. */
  private static int tensors(OptimizerSpec optimizer) {
    if (optimizer instanceof OptimizerSpec.Sgd sgd) {
      return sgd.momentum() > 0 ? 1 : 0;
    }
    boolean amsgrad =
        (optimizer instanceof OptimizerSpec.Adam adam && adam.amsgrad())
            || (optimizer instanceof OptimizerSpec.AdamW adamW && adamW.amsgrad());
    return amsgrad ? 3 : 2;
  }

  private static int copies(StrategySpec strategy) {
    return strategy instanceof StrategySpec.Ddp ddp && !ddp.options().gradientAsBucketView()
        ? 1
        : 0;
  }

  /** What a rank of the strategy keeps of it all on its device. */
  ModelMemory onDevice(StrategySpec strategy) {
    if (!(strategy instanceof StrategySpec.Fsdp fsdp)) {
      return this;
    }
    FsdpOptions options = fsdp.options();
    Integer group = options.shardGroupSize();
    double shard =
        switch (options.shardingStrategy()) {
          case FULL_SHARD, SHARD_GRAD_OP -> 1.0 / fsdp.workers();
          case HYBRID_SHARD -> group == null ? 1.0 / fsdp.workers() : 1.0 / group;
          case NO_SHARD -> 1;
        };
    double kept = options.cpuOffload() ? 0 : shard;
    return new ModelMemory(kept * parameters, kept * gradients, kept * optimizer, kept * buckets);
  }

  /** The parameters alone, as before anything is trained. */
  ModelMemory parametersOnly() {
    return new ModelMemory(parameters, 0, 0, 0);
  }

  double total() {
    return parameters + gradients + optimizer + buckets;
  }

  /**
   * Refuses a model that cannot fit before it is allocated: the kernel would end the process.
   *
   * @param ranksOnHost ranks that share the memory
   * @param availableBytes memory that processes on this host can still get
   * @throws IllegalStateException with the figures
   */
  void requireFits(int ranksOnHost, long availableBytes) {
    double needed = total() * ranksOnHost;
    if (needed > availableBytes) {
      throw new IllegalStateException(
          String.format(
              Locale.ROOT,
              "Cannot train the model: expected at most %.1f GiB, which this host has free, got %.1f GiB for %d %s of %.1f GiB each (%s), before any activations. Make the model smaller, or use hosts with more memory.",
              availableBytes / GIB,
              needed / GIB,
              ranksOnHost,
              ranksOnHost == 1 ? "rank" : "ranks",
              total() / GIB,
              parts()));
    }
  }

  /** For messages: what it is made of. */
  String parts() {
    return String.format(
        Locale.ROOT,
        "parameters %.1f, gradients %.1f, optimizer %.1f, buckets %.1f",
        parameters / GIB,
        gradients / GIB,
        optimizer / GIB,
        buckets / GIB);
  }
}
