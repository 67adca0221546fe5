package io.sparktrainer.strategy.plan;

import io.sparktrainer.strategy.BackwardPrefetch;
import io.sparktrainer.strategy.FsdpOptions;
import io.sparktrainer.strategy.MixedPrecision;
import io.sparktrainer.strategy.plan.ShardLayout.Of;
import io.sparktrainer.torch.DType;
import java.util.List;

/**
 * Arithmetic of {@code fsdp} (Zhao et al., VLDB 2023; Rajbhandari et al., SC 2020). With Adam in
 * float32, N ranks in shard groups of S, P parameters and U of them in the largest unit, a rank
 * holds 16 P / S bytes, and at the peak 4 U for each of two units gathered (the one that computes
 * and the one fetched ahead) and 4 U for each of two gradients (the one that backward adds up and
 * the one being reduced). A unit that contains others is gathered all the while.
 */
final class ShardedCosts {
  private final ShardLayout layout;
  private final FsdpOptions options;
  private final StepOutline step;
  private final long bufferBytes;

  /**
   * @param bufferBytes the model's buffers, which every rank holds
   */
  ShardedCosts(ShardLayout layout, FsdpOptions options, StepOutline step, long bufferBytes) {
    this.layout = layout;
    this.options = options;
    this.step = step;
    this.bufferBytes = bufferBytes;
  }

  Cost cost() {
    return new Cost(memory(), Math.round(sent()));
  }

  private MemoryUse memory() {
    long parameters = layout.shards(Of.PARAMETERS, DType::bytes);
    long gradients = layout.shards(Of.GRADIENTS, DType::bytes);
    long optimizer = step.statesPerParameter() * gradients;
    long copies = gathered() + wholeGradients();
    if (options.cpuOffload()) {
      return new MemoryUse(
          bufferBytes,
          0,
          0,
          0,
          copies,
          step.activations().bytes(),
          parameters + gradients + optimizer);
    }
    return new MemoryUse(
        parameters + bufferBytes, gradients, optimizer, 0, copies, step.activations().bytes(), 0);
  }

  private long gathered() {
    if (isWhole() && mixed().paramDtype() == null) {
      return 0;
    }
    if (!options.shardingStrategy().freesAfterForward()
        || (!options.limitAllGathers() && prefetches())) {
      return layout.whole(layout.units(), Of.PARAMETERS, this::gatheredBytes);
    }
    List<Long> inner = sizes(Of.PARAMETERS);
    return layout.whole(layout.outerUnits(), Of.PARAMETERS, this::gatheredBytes)
        + (prefetches() ? Neighbours.largestPair(inner) : Neighbours.largest(inner));
  }

  /** Whether two units are gathered at a time. */
  private boolean prefetches() {
    return options.forwardPrefetch() || options.backwardPrefetch() != BackwardPrefetch.NONE;
  }

  private long wholeGradients() {
    if (isWhole() && mixed().paramDtype() == null && mixed().reduceDtype() == null) {
      return 0;
    }
    if (step.accumulates() && !options.accumulateSharded()) {
      return layout.whole(layout.units(), Of.GRADIENTS, this::reducedBytes);
    }
    return layout.whole(layout.outerUnits(), Of.GRADIENTS, this::reducedBytes)
        + (options.backwardPrefetch() == BackwardPrefetch.NONE
            ? Neighbours.largest(sizes(Of.GRADIENTS))
            : Neighbours.largestPair(sizes(Of.GRADIENTS)));
  }

  private List<Long> sizes(Of what) {
    return layout.innerUnits().stream()
        .map(
            unit ->
                layout.whole(
                    unit, what, what == Of.PARAMETERS ? this::gatheredBytes : this::reducedBytes))
        .toList();
  }

  /**
   * On a ring: a gather or a reduce-scatter of P bytes over S ranks sends P (S - 1) / S, an
   * all-reduce twice that.
   */
  private double sent() {
    double group = layout.shardGroup();
    double inGroup = (group - 1) / group;
    double acrossGroups = (layout.replicas() - 1.0) / layout.replicas();
    double inner = layout.whole(layout.innerUnits(), Of.PARAMETERS, this::gatheredBytes);
    double outer = layout.whole(layout.outerUnits(), Of.PARAMETERS, this::gatheredBytes);
    double gradients = layout.whole(layout.units(), Of.GRADIENTS, this::reducedBytes);
    // What is not freed after forward stays for all micro-batches of a step; a unit around others
    // stays from its forward to its backward.
    double gathered =
        options.shardingStrategy().freesAfterForward()
            ? step.accumulate() * (2 * inner + outer)
            : inner + outer;
    int reductions = options.accumulateSharded() ? step.accumulate() : 1;
    return gathered * inGroup
        + reductions * (gradients * inGroup + 2 * gradients / group * acrossGroups);
  }

  /** Where the shard is the whole model, and computes where it lies. */
  private boolean isWhole() {
    return layout.shardGroup() == 1 && !options.cpuOffload();
  }

  private MixedPrecision mixed() {
    return options.mixedPrecision();
  }

  private int gatheredBytes(DType own) {
    return mixed().gathered(own).bytes();
  }

  private int reducedBytes(DType own) {
    return mixed().reduced(own).bytes();
  }
}
