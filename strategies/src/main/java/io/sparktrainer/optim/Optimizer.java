package io.sparktrainer.optim;

import java.util.Map;
import org.bytedeco.pytorch.Tensor;

/** Updates parameters from their gradients; its state is plain tensors with names. */
public interface Optimizer extends AutoCloseable {
  /**
   * One update of every parameter that has a gradient; parameters without one, and their state, are
   * left untouched.
   *
   * @param learningRate this step's learning rate, absolute
   */
  void step(double learningRate);

  /**
   * As {@link #step(double)}, for gradients of a loss that was multiplied by {@code gradScale}:
   * they are divided by it first. Where {@code foundInf} is 1 nothing changes, neither parameters
   * nor state.
   *
   * @param gradScale float32 scalar on the parameters' device
   * @param foundInf float32 scalar on the parameters' device, 1 if any gradient is not finite, else
   *     0
   */
  void step(double learningRate, Tensor gradScale, Tensor foundInf);

  /** The learning rate it was configured with, which a schedule scales. */
  double baseLearningRate();

  /**
   * State by name: parameter name, a slash, and PyTorch's name of the state ({@code exp_avg},
   * {@code exp_avg_sq}, {@code step}, {@code momentum_buffer}). Live tensors, owned by the
   * optimizer. Parameters never updated have none.
   */
  Map<String, Tensor> state();

  /**
   * Replaces the state by copies of {@code state}, as {@link #state()} returned it.
   *
   * @throws IllegalArgumentException if a name or shape does not fit, naming the first that does
   *     not
   */
  void loadState(Map<String, Tensor> state);

  /** Frees the state. */
  @Override
  void close();
}
