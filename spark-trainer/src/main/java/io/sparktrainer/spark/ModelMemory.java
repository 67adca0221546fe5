package io.sparktrainer.spark;

import io.sparktrainer.optim.OptimizerSpec;
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
              "Cannot train the model: expected at most %.1f GiB, which this host has free, got %.1f GiB for %d %s of %.1f GiB each (parameters %.1f, gradients %.1f, optimizer %.1f, buckets %.1f), before any activations. Make the model smaller, or use hosts with more memory.",
              availableBytes / GIB,
              needed / GIB,
              ranksOnHost,
              ranksOnHost == 1 ? "rank" : "ranks",
              total() / GIB,
              parameters / GIB,
              gradients / GIB,
              optimizer / GIB,
              buckets / GIB));
    }
  }
}
