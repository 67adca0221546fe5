package io.sparktrainer.strategy.plan;

import io.sparktrainer.strategy.BackwardPrefetch;
import io.sparktrainer.strategy.FsdpOptions;
import io.sparktrainer.strategy.plan.ShardLayout.Of;
import io.sparktrainer.torch.DType;
import java.util.List;
import java.util.function.ToIntFunction;

/**
 * Arithmetic of {@code fsdp} (Zhao et al., VLDB 2023; Rajbhandari et al., SC 2020). With Adam in
 * float32, N ranks in shard groups of S, P parameters and U of them in the largest unit, a rank
 * holds 16 P / S bytes, and at the peak 4 U for each of two units gathered (the one that computes
 * and the one fetched ahead), 4 U for each of two gradients (the one that backward adds up and the
 * one being reduced), and the gradient of one parameter that is to be added. Where the reduced
 * piece cannot be the shard itself, because that is on the host, of another type, or holds a sum
 * already, two more pieces of 4 U / S. A unit that contains others is gathered all the while.
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
    long copies = gathered() + wholeGradients() + reducedPieces();
    long activations = step.activations().bytes();
    if (options.cpuOffload()) {
      long host = parameters + gradients + optimizer;
      return new MemoryUse(bufferBytes, newest(), 0, 0, copies, activations, host);
    }
    return new MemoryUse(
        parameters + bufferBytes, gradients + newest(), optimizer, 0, copies, activations, 0);
  }

  /** A parameter's gradient as backward makes it, before it is added to the unit's. */
  private long newest() {
    return layout.units().stream()
        .flatMap(unit -> unit.parameters().stream())
        .filter(ParameterOutline::trainable)
        .mapToLong(parameter -> parameter.numel() * gathers(parameter.dtype()).bytes())
        .max()
        .orElse(0);
  }

  private long gathered() {
    ToIntFunction<DType> bytes = own -> isWhole() && gathers(own) == own ? 0 : gathers(own).bytes();
    if (!options.shardingStrategy().freesAfterForward()
        || (!options.limitAllGathers() && prefetches())) {
      return layout.whole(layout.units(), Of.PARAMETERS, bytes);
    }
    List<Long> inner = sizes(layout.innerUnits(), Of.PARAMETERS, bytes);
    return layout.whole(layout.outerUnits(), Of.PARAMETERS, bytes)
        + (prefetches() ? Neighbours.largestPair(inner) : Neighbours.largest(inner));
  }

  /** Whether two units are gathered at a time. */
  private boolean prefetches() {
    return options.forwardPrefetch() || options.backwardPrefetch() != BackwardPrefetch.NONE;
  }

  /** What backward adds gradients up in, and what is being reduced. */
  private long wholeGradients() {
    ToIntFunction<DType> bytes = own -> isWhole() && reduces(own) == own ? 0 : reduces(own).bytes();
    if (step.accumulates() && !options.accumulateSharded()) {
      return layout.whole(layout.units(), Of.GRADIENTS, bytes);
    }
    List<Long> inner = sizes(layout.innerUnits(), Of.GRADIENTS, bytes);
    return layout.whole(layout.outerUnits(), Of.GRADIENTS, bytes) + reducedAtATime(inner);
  }

  /** Reduced pieces on their way to a shard that is elsewhere, of another type, or a sum. */
  private long reducedPieces() {
    if (layout.shardGroup() == 1) {
      return 0;
    }
    boolean addsUp = step.accumulates() && options.accumulateSharded();
    ToIntFunction<DType> bytes =
        own -> options.cpuOffload() || addsUp || reduces(own) != own ? reduces(own).bytes() : 0;
    return reducedAtATime(sizes(layout.units(), Of.GRADIENTS, bytes)) / layout.shardGroup();
  }

  /** Of gradients in a row: a unit's reduction may last into the backward of the next. */
  private long reducedAtATime(List<Long> sizes) {
    boolean inTheBackground =
        layout.ranks() > 1 && options.backwardPrefetch() != BackwardPrefetch.NONE;
    return inTheBackground ? Neighbours.largestPair(sizes) : Neighbours.largest(sizes);
  }

  private List<Long> sizes(List<UnitOutline> units, Of what, ToIntFunction<DType> bytes) {
    return units.stream().map(unit -> layout.whole(unit, what, bytes)).toList();
  }

  /**
   * On a ring: a gather or a reduce-scatter of P bytes over S ranks sends P (S - 1) / S, an
   * all-reduce twice that.
   */
  private double sent() {
    double group = layout.shardGroup();
    double inGroup = (group - 1) / group;
    double acrossGroups = (layout.replicas() - 1.0) / layout.replicas();
    double inner = layout.whole(layout.innerUnits(), Of.PARAMETERS, own -> gathers(own).bytes());
    double outer = layout.whole(layout.outerUnits(), Of.PARAMETERS, own -> gathers(own).bytes());
    double gradients = layout.whole(layout.units(), Of.GRADIENTS, own -> reduces(own).bytes());
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

  private DType gathers(DType own) {
    return options.mixedPrecision().gathered(own);
  }

  private DType reduces(DType own) {
    return options.mixedPrecision().reduced(own);
  }
}
