package io.sparktrainer.optim;

/** How the learning rate changes over a training. Steps are optimizer steps, from 0. */
public sealed interface ScheduleSpec {
  /** The name in a configuration: {@code constant}, {@code step}, {@code cosine}. */
  String name();

  /**
   * What the learning rate is multiplied by.
   *
   * @param step number of optimizer steps taken before this one
   * @param totalSteps optimizer steps of the whole training
   * @throws IllegalArgumentException if {@code step} is negative or {@code totalSteps} below 1
   */
  double factor(long step, long totalSteps);

  /** The same learning rate in every step. */
  static ScheduleSpec constant() {
    return new Constant();
  }

  /**
   * Multiplies the learning rate by {@code gamma} every {@code stepSize} steps.
   *
   * @throws IllegalArgumentException if an option is out of its range
   */
  static ScheduleSpec step(long stepSize, double gamma) {
    return new Step(stepSize, gamma);
  }

  /**
   * Rises over {@code warmupSteps} steps, then falls along half a cosine to zero.
   *
   * @throws IllegalArgumentException if {@code warmupSteps} is negative
   */
  static ScheduleSpec cosine(long warmupSteps) {
    return new Cosine(warmupSteps, 0);
  }

  /** The same learning rate in every step. */
  record Constant() implements ScheduleSpec {
    @Override
    public String name() {
      return "constant";
    }

    @Override
    public double factor(long step, long totalSteps) {
      requireSteps(step, totalSteps);
      return 1;
    }
  }

  /**
   * gamma^floor(step / stepSize): PyTorch's StepLR, counted in optimizer steps.
   *
   * @param stepSize steps between two changes, at least 1
   * @param gamma factor of each change, above 0
   */
  record Step(long stepSize, double gamma) implements ScheduleSpec {
    public Step {
      if (stepSize < 1) {
        throw new IllegalArgumentException(
            "Cannot use schedule step with step_size " + stepSize + ": expected at least 1.");
      }
      if (!(gamma > 0 && gamma <= Double.MAX_VALUE)) {
        throw new IllegalArgumentException(
            "Cannot use schedule step with gamma " + gamma + ": expected a finite value above 0.");
      }
    }

    @Override
    public String name() {
      return "step";
    }

    @Override
    public double factor(long step, long totalSteps) {
      requireSteps(step, totalSteps);
      long changes = step / stepSize;
      return Math.pow(gamma, (double) changes);
    }
  }

  /**
   * (step + 1) / (warmupSteps + 1) while step &lt; warmupSteps, then half a cosine from 1 down to
   * minFactor, which it reaches after the last step (arXiv 1608.03983 without restarts). In
   * PyTorch: LinearLR with start_factor 1 / (warmupSteps + 1), then CosineAnnealingLR with T_max
   * the remaining steps.
   *
   * @param warmupSteps steps that rise, at least 0
   * @param minFactor where it ends, in [0, 1], default 0
   */
  record Cosine(long warmupSteps, double minFactor) implements ScheduleSpec {
    public Cosine {
      if (warmupSteps < 0) {
        throw new IllegalArgumentException(
            "Cannot use schedule cosine with warmup_steps "
                + warmupSteps
                + ": expected at least 0.");
      }
      if (!(minFactor >= 0 && minFactor <= 1)) {
        throw new IllegalArgumentException(
            "Cannot use schedule cosine with min_factor "
                + minFactor
                + ": expected a value in [0, 1].");
      }
    }

    @Override
    public String name() {
      return "cosine";
    }

    @Override
    public double factor(long step, long totalSteps) {
      requireSteps(step, totalSteps);
      if (step < warmupSteps) {
        return (step + 1.0) / (warmupSteps + 1.0);
      }
      if (step >= totalSteps) {
        return minFactor;
      }
      double done = (double) (step - warmupSteps) / (totalSteps - warmupSteps);
      return minFactor + (1 - minFactor) * (1 + Math.cos(Math.PI * done)) / 2;
    }
  }

  private static void requireSteps(long step, long totalSteps) {
    if (step < 0 || totalSteps < 1) {
      throw new IllegalArgumentException(
          "Cannot schedule a learning rate: expected a step from 0 and at least 1 step in all, got step %d of %d."
              .formatted(step, totalSteps));
    }
  }
}
