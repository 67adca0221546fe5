package io.sparktrainer.strategy.plan;

import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.strategy.Precision;
import io.sparktrainer.torch.DType;
import java.util.List;

/**
 * Arithmetic of the strategies in which every rank holds the whole model. With Adam in float32,
 * bytes per parameter are 16 for {@code none} (4 parameter, 4 gradient, 8 optimizer), 20 for {@code
 * ddp} (4 more in buckets), 16 with {@code gradient_as_bucket_view}.
 */
final class ReplicaCosts {
  private final ModelOutline model;
  private final StepOutline step;

  ReplicaCosts(ModelOutline model, StepOutline step) {
    this.model = model;
    this.step = step;
  }

  /** One device. */
  Cost none() {
    return new Cost(memory(model.trainableBytes(), 0), 0);
  }

  /**
   * Replicas in one process which share their parameters: each but the first adds its gradients.
   *
   * @param replicas number of replicas on the same memory
   */
  Cost dpOnHost(int replicas) {
    requireReplicas(replicas);
    return new Cost(memory(replicas * model.trainableBytes(), 0), 0);
  }

  /**
   * Replicas on devices of their own, each with a part of the batch; figures are the root's, which
   * holds the optimizer and sends its parameters to each of the others. Gradients reach it in small
   * pieces.
   */
  Cost dpOnDevices(int replicas) {
    requireReplicas(replicas);
    MemoryUse all = memory(model.trainableBytes(), 0);
    MemoryUse root =
        new MemoryUse(
            all.parameters(),
            all.gradients(),
            all.optimizer(),
            0,
            all.copies(),
            Math.floorDiv(all.activations() + replicas - 1, replicas),
            0);
    return new Cost(root, (replicas - 1L) * model.parameterBytes());
  }

  /** A replica per rank, gradients averaged in buckets. */
  Cost ddp(int ranks, DdpOptions options) {
    if (ranks < 1) {
      throw new IllegalArgumentException(
          "Cannot plan ddp: expected at least 1 rank, got %d.".formatted(ranks));
    }
    long trainable = model.trainableBytes();
    // Views of the buckets need no gradients of their own but what backward makes before it is
    // copied in. Accumulated gradients exist before there is anything to copy.
    boolean views = options.gradientAsBucketView() && !step.accumulates();
    long gradients = views ? transientGradients() : trainable;
    long sent = Math.round(2.0 * trainable * (ranks - 1) / ranks);
    return new Cost(memory(gradients, trainable), sent);
  }

  /** Two neighbours: a gradient is copied to its bucket when the next one has been made. */
  private long transientGradients() {
    List<Long> sizes =
        model.parameters().stream()
            .filter(ParameterOutline::trainable)
            .map(ParameterOutline::bytes)
            .toList();
    return Neighbours.largestPair(sizes);
  }

  private MemoryUse memory(long gradients, long buckets) {
    return new MemoryUse(
        model.parameterBytes() + model.bufferBytes(),
        gradients,
        step.statesPerParameter() * model.trainableBytes(),
        buckets,
        casts(),
        step.activations().bytes(),
        0);
  }

  /** Autocast keeps the cast parameters until the end of forward, and the graph until backward. */
  private long casts() {
    if (step.precision() == Precision.NONE) {
      return 0;
    }
    return model.parameters().stream()
        .filter(parameter -> parameter.dtype() == DType.FLOAT32 && parameter.shape().size() > 1)
        .mapToLong(parameter -> parameter.numel() * step.precision().dtype().bytes())
        .sum();
  }

  private static void requireReplicas(int replicas) {
    if (replicas < 1) {
      throw new IllegalArgumentException(
          "Cannot plan dp: expected at least 1 replica, got %d.".formatted(replicas));
    }
  }
}
