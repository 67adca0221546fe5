package io.sparktrainer.strategy;

import io.sparktrainer.comm.Communicator;
import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.Loss;
import io.sparktrainer.torch.Device;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * One rank's side of a parallel training.
 *
 * <p>A step is: {@link #zeroGrad()}, one {@link #forwardBackward} per micro-batch with {@link
 * GradientSync#REDUCE} on the last, {@link #unscaleGradients()}, and, if that says so, optionally
 * {@link #clipGradNorm}, then the optimizer's step over {@link #trainable()}. All ranks take the
 * same steps. After a failure only {@link #abort} may be called.
 */
public interface ParallelStrategy extends AutoCloseable {
  /** The strategy's name in a configuration. */
  String name();

  /** The group of all ranks; of one rank where the strategy has no peers. */
  Communicator communicator();

  default int rank() {
    return communicator().rank();
  }

  default int worldSize() {
    return communicator().worldSize();
  }

  /** Where this rank's model computes, and where its inputs have to be. */
  Device device();

  /** The model as this rank holds it. */
  Block model();

  /**
   * What the optimizer updates on this rank, by the model's parameter names: the trainable
   * parameters themselves, or this rank's shards of them. Gradients are in their {@code grad()}.
   */
  Map<String, Tensor> trainable();

  /**
   * One forward and backward pass over one micro-batch; gradients add to what is there.
   *
   * @param inputs the model's inputs on this rank's device
   * @param target what the loss compares with
   * @param weight weights of the rows, for {@link Loss#weighted}; null for {@link Loss#of}
   * @param scale factor on the loss before backward, such as 1/k when k micro-batches make a step
   * @return the unscaled loss of this rank's micro-batch, 0-dimensional, without graph, in the
   *     caller's scope
   * @throws IllegalStateException if the strategy is closed or has failed
   */
  Tensor forwardBackward(
      Tensor[] inputs,
      Tensor target,
      @Nullable Tensor weight,
      Loss loss,
      double scale,
      GradientSync sync);

  /** The same for rows that all count alike. */
  default Tensor forwardBackward(
      Tensor[] inputs, Tensor target, Loss loss, double scale, GradientSync sync) {
    return forwardBackward(inputs, target, null, loss, scale, sync);
  }

  /** What the sum of all ranks' gradients was divided by in the last step. */
  default int gradientDivisor() {
    return worldSize();
  }

  /** The model's output without a graph, in the model's current mode. */
  Tensor predict(Tensor... inputs);

  /**
   * Makes the accumulated gradients those of the loss itself, where mixed precision scales it, and
   * decides, the same on all ranks, whether they can be used. All ranks call it together, once per
   * step, before clipping.
   *
   * @return false if some gradient on some rank is not finite: the step is to be skipped, so that
   *     neither parameters nor the optimizer's state change
   */
  default boolean unscaleGradients() {
    return true;
  }

  /**
   * What loss scaling has to remember when a training goes on later, by name, the same on every
   * rank; empty where the loss is not scaled.
   */
  default Map<String, Double> scalerState() {
    return Map.of();
  }

  /**
   * Continues from a {@link #scalerState()}.
   *
   * @throws IllegalArgumentException if {@code saved} does not fit this strategy's precision
   */
  default void loadScalerState(Map<String, Double> saved) {
    if (!saved.isEmpty()) {
      throw new IllegalArgumentException(
          "Cannot load the state of loss scaling into %s: expected none without mixed_precision fp16, got %s."
              .formatted(name(), saved));
    }
  }

  /**
   * Whether {@link #predict} is a collective: ranks then call it equally often, and one that has
   * fewer inputs than others calls {@link #joinPredict} in place of each it lacks.
   */
  default boolean predictsTogether() {
    return false;
  }

  /** Takes part in the other ranks' {@link #predict} without inputs of this rank's own. */
  default void joinPredict() {}

  /** Clears all gradients. */
  void zeroGrad();

  /**
   * Scales all gradients so that their 2-norm, taken over the whole model on all ranks, is at most
   * {@code maxNorm}.
   *
   * @return the norm before clipping, the same on every rank
   */
  double clipGradNorm(double maxNorm);

  /** Limits every element of every gradient to [-limit, limit]. */
  void clipGradValue(double limit);

  /**
   * The whole model's parameters and buffers by name, on the CPU, as they would be on one device.
   * All ranks call it together; rank 0 gets the state (in its current scope), the others an empty
   * map.
   */
  Map<String, Tensor> fullState();

  /**
   * What this rank alone needs, beside model and optimizer, to go on as before, by name; empty for
   * most strategies. The tensors belong to the strategy.
   */
  default Map<String, Tensor> rankState() {
    return Map.of();
  }

  /**
   * Takes over a copy of what {@link #rankState()} gave on the same rank of a world of the same
   * size.
   *
   * @throws IllegalArgumentException if it does not fit this strategy or model
   */
  default void loadRankState(Map<String, Tensor> state) {
    if (!state.isEmpty()) {
      throw new IllegalArgumentException(
          "Cannot load the state of a rank into %s: expected none, got %s."
              .formatted(name(), state.keySet()));
    }
  }

  /**
   * Whether ranks may take different numbers of steps in an epoch: those with fewer call {@link
   * #shadowStep()} for the rest.
   */
  default boolean allowsUnevenSteps() {
    return false;
  }

  /**
   * Starts an epoch; all ranks call it together.
   *
   * @param steps optimizer steps for which this rank has data
   * @return steps of the epoch: the most of any rank where {@link #allowsUnevenSteps()}, else
   *     {@code steps}
   */
  default long beginEpoch(long steps) {
    return steps;
  }

  /**
   * Takes part in a step for which only other ranks have data. Gradients are afterwards those of
   * the whole step, so that clipping and the optimizer go on as on the other ranks.
   *
   * @throws IllegalStateException if this rank has data for the step, or none has
   */
  default void shadowStep() {
    throw new IllegalStateException(
        "Cannot shadow a step with %s: expected the same number of steps on every rank."
            .formatted(name()));
  }

  /**
   * Ends an epoch after its last step; all ranks call it together. Buffers, such as running
   * statistics, are equal on all ranks afterwards where the strategy synchronises them.
   */
  default void endEpoch() {}

  /** Ends the training after success; all ranks call it. Does nothing the second time. */
  @Override
  void close();

  /**
   * Ends the training on this rank after a failure and frees peers that wait for it. May be called
   * from any thread.
   */
  void abort(String reason);
}
