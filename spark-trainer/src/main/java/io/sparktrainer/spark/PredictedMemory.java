package io.sparktrainer.spark;

import io.sparktrainer.spark.config.TrainerConfig;
import io.sparktrainer.strategy.StrategySpec;
import io.sparktrainer.strategy.WrapPolicy;
import io.sparktrainer.strategy.plan.Activations;
import io.sparktrainer.strategy.plan.Machines;
import io.sparktrainer.strategy.plan.MemoryUse;
import io.sparktrainer.strategy.plan.ModelOutline;
import io.sparktrainer.strategy.plan.Planner;
import io.sparktrainer.strategy.plan.StepOutline;
import io.sparktrainer.torch.Device;
import java.util.Locale;

/**
 * What the planner predicts for one rank, without activations.
 *
 * @param use in a step
 * @param modelBytes the whole model, which every rank makes before fsdp cuts it
 */
record PredictedMemory(MemoryUse use, long modelBytes) {
  private static final double GIB = 1024.0 * 1024 * 1024;

  /** Which blocks {@code fsdp} cuts; the other strategies have no use for units. */
  static WrapPolicy units(TrainerConfig config) {
    return config.device().strategy() instanceof StrategySpec.Fsdp fsdp
        ? fsdp.options().wrapPolicy()
        : new WrapPolicy.WholeModel();
  }

  /**
   * On the CPU.
   *
   * @param model described with {@link #units}
   */
  static PredictedMemory onHost(
      ModelOutline model, TrainerConfig config, StrategySpec strategy, int ranksOnHost) {
    return of(model, config, strategy, Device.Type.CPU, ranksOnHost);
  }

  /**
   * On a GPU.
   *
   * @param model described with {@link #units}
   */
  static PredictedMemory onDevice(
      ModelOutline model, TrainerConfig config, StrategySpec strategy, int ranksOnHost) {
    return of(model, config, strategy, Device.Type.CUDA, ranksOnHost);
  }

  private static PredictedMemory of(
      ModelOutline model,
      TrainerConfig config,
      StrategySpec strategy,
      Device.Type type,
      int ranksOnHost) {
    StepOutline step =
        new StepOutline(
            config.optimizer(),
            config.training().accumulate(),
            config.device().computeOptions().precision(),
            Activations.UNKNOWN);
    int ranks = strategy.workers();
    int hosts = ranks % ranksOnHost == 0 ? ranks / ranksOnHost : 1;
    Machines machines = new Machines(type, Long.MAX_VALUE, hosts, ranks);
    return new PredictedMemory(
        new Planner(model, step, machines).cost(strategy).memory(), model.parameterBytes());
  }

  /** Before anything is trained. */
  PredictedMemory ofModelAlone() {
    return new PredictedMemory(new MemoryUse(modelBytes, 0, 0, 0, 0, 0, 0), modelBytes);
  }

  /**
   * Refuses a model that cannot fit before it is allocated: the kernel would end the process.
   *
   * @param ranksOnHost ranks that share the memory
   * @param availableBytes memory that processes on this host can still get
   * @throws IllegalStateException with the figures
   */
  void requireFits(int ranksOnHost, long availableBytes) {
    double each = Math.max(use.peak(), modelBytes);
    if (each * ranksOnHost > availableBytes) {
      throw new IllegalStateException(
          String.format(
              Locale.ROOT,
              "Cannot train the model: expected at most %.1f GiB, which this host has free, got %.1f GiB for %d %s of %.1f GiB each (whole model %.1f; in a step %s), before any activations. Make the model smaller, use hosts with more memory, or strategy auto.",
              availableBytes / GIB,
              each * ranksOnHost / GIB,
              ranksOnHost,
              ranksOnHost == 1 ? "rank" : "ranks",
              each / GIB,
              modelBytes / GIB,
              parts()));
    }
  }

  /** For messages: what a step's is made of. */
  String parts() {
    return String.format(
        Locale.ROOT,
        "parameters %.1f, gradients %.1f, optimizer %.1f, buckets %.1f, copies %.1f",
        use.parameters() / GIB,
        use.gradients() / GIB,
        use.optimizer() / GIB,
        use.buckets() / GIB,
        use.copies() / GIB);
  }
}
