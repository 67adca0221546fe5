package io.sparktrainer.strategy.ddp;

import io.sparktrainer.comm.Communicator;
import io.sparktrainer.nn.BatchNorm;
import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.BlockInterceptor;
import io.sparktrainer.torch.Gradients;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.stream.IntStream;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptional;
import org.bytedeco.pytorch.global.torch;

/**
 * Batch normalisation over the rows of all ranks, in place of every {@link BatchNorm} of a model
 * while it trains. Ranks may have different numbers of rows, or none.
 *
 * <p>Forward: one all-gather of each rank's mean, variance and count, merged by count; the layer
 * then normalises as in evaluation, with the merged statistics for constants. Backward: what that
 * leaves out of the input's gradient, the part that flows through the statistics, is added by a
 * hook after one all-reduce of two sums per channel. The gradients of weight and bias stay local
 * and are averaged with all others.
 *
 * <p>These collectives have a group of their own: between them and the reductions of gradients
 * there is no order that all ranks would share.
 */
final class SyncBatchNorm implements AutoCloseable {
  private final Communicator group;
  private final List<Layer> layers = new ArrayList<>();
  // libtorch calls hooks that Java must keep reachable for as long as the graph may run.
  private final List<SyncedInputGradient> hooks = new ArrayList<>();
  private final List<Tensor> results = new ArrayList<>();

  /**
   * Takes the place of every batch normalisation in {@code model}; all ranks call it together.
   *
   * @throws IllegalArgumentException if there is none
   */
  SyncBatchNorm(Block model, Communicator communicator) {
    List<BatchNorm> norms =
        model.blocks().values().stream()
            .filter(BatchNorm.class::isInstance)
            .map(BatchNorm.class::cast)
            .distinct()
            .toList();
    if (norms.isEmpty()) {
      throw new IllegalArgumentException(
          "Cannot use sync_batch_norm: expected a batch normalisation in the model, got %s without one. Set ddp.sync_batch_norm to false."
              .formatted(model));
    }
    int[] everyone = IntStream.range(0, communicator.worldSize()).toArray();
    this.group = communicator.subGroup("sync_batch_norm", everyone);
    for (BatchNorm norm : norms) {
      Layer layer = new Layer(norm);
      norm.intercept(layer);
      layers.add(layer);
    }
  }

  /** Frees what earlier forward passes left for backward passes, which have ended by now. */
  void startPass() {
    hooks.forEach(SyncedInputGradient::close);
    hooks.clear();
    results.forEach(Tensor::close);
    results.clear();
  }

  @Override
  public void close() {
    layers.forEach(layer -> layer.norm.removeInterceptor(layer));
    startPass();
    group.close();
  }

  private final class Layer implements BlockInterceptor {
    private final BatchNorm norm;
    private final Tensor weight;
    private final Tensor bias;
    private final Tensor runningMean;
    private final Tensor runningVar;
    private final Tensor batches;

    private Layer(BatchNorm norm) {
      this.norm = norm;
      this.weight = Objects.requireNonNull(norm.parameters().get("weight"));
      this.bias = Objects.requireNonNull(norm.parameters().get("bias"));
      this.runningMean = Objects.requireNonNull(norm.buffers().get("running_mean"));
      this.runningVar = Objects.requireNonNull(norm.buffers().get("running_var"));
      this.batches = Objects.requireNonNull(norm.buffers().get("num_batches_tracked"));
    }

    @Override
    public Tensor intercept(Block block, Tensor[] inputs, Forward next) {
      if (!norm.training() || group.worldSize() == 1) {
        return next.apply(inputs);
      }
      Tensor input = inputs[0];
      BatchStatistics statistics;
      try (var off = Gradients.off()) {
        statistics = BatchStatistics.gather(input, group);
        track(statistics);
      }
      Tensor observed = input;
      if (input.requires_grad()) {
        observed = input.view_as(input);
        SyncedInputGradient hook =
            NativeScope.keep(new SyncedInputGradient(input, statistics, group, results));
        hooks.add(hook);
        observed.register_hook(hook);
      }
      return torch.batch_norm(
          observed,
          new TensorOptional(weight),
          new TensorOptional(bias),
          new TensorOptional(statistics.mean().to(runningMean.scalar_type())),
          new TensorOptional(statistics.variance().to(runningVar.scalar_type())),
          false,
          BatchNorm.MOMENTUM,
          BatchNorm.EPSILON,
          false);
    }

    /** Moves the running statistics, of which the variance is the unbiased one. */
    private void track(BatchStatistics statistics) {
      Scalar momentum = Tensors.scalar(BatchNorm.MOMENTUM);
      Scalar unbias = Tensors.scalar(statistics.count() / (statistics.count() - 1));
      Tensor mean = statistics.mean().to(runningMean.scalar_type());
      Tensor variance = statistics.variance().mul(unbias).to(runningVar.scalar_type());
      runningMean.variable_data().lerp_(mean, momentum);
      runningVar.variable_data().lerp_(variance, momentum);
      batches.variable_data().add_(new Scalar(1));
    }
  }
}
