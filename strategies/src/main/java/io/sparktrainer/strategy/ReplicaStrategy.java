package io.sparktrainer.strategy;

import io.sparktrainer.comm.Communicator;
import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.Loss;
import io.sparktrainer.optim.Clipping;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.Gradients;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * What the strategies share in which a rank runs one model: the order of a forward and backward
 * pass, and the life cycle READY, then CLOSED after success or FAILED after a failure.
 */
public abstract class ReplicaStrategy implements ParallelStrategy {
  private enum State {
    READY,
    FAILED,
    CLOSED
  }

  private final Block model;
  private final Communicator communicator;
  private final Device device;
  private final Computation computation;
  private final @Nullable GradScaler scaler;
  private volatile State state = State.READY;

  /**
   * Takes over {@code model} and {@code communicator}, which are closed with the strategy.
   *
   * @throws IllegalArgumentException if the model has no trainable parameter, or no block that is
   *     to be checkpointed
   */
  protected ReplicaStrategy(Block model, Communicator communicator, ComputeOptions options) {
    this.model = model;
    this.communicator = communicator;
    this.device = options.device();
    this.computation = new Computation(model, options);
    this.scaler = options.precision().needsScaling() ? new GradScaler(options.scaler()) : null;
    if (trainableParameters(model).isEmpty()) {
      throw new IllegalArgumentException(
          "Cannot train %s with %s: expected at least one parameter with requires_grad, got none among %d parameters. Register tensors with parameter(), and unfreeze what is to be trained."
              .formatted(model, name(), model.parameters().size()));
    }
  }

  /** The parameters of {@code model} that require gradients, by name. */
  public static Map<String, Tensor> trainableParameters(Block model) {
    Map<String, Tensor> trainable = new LinkedHashMap<>();
    model
        .parameters()
        .forEach(
            (name, tensor) -> {
              if (tensor.requires_grad()) {
                trainable.put(name, tensor);
              }
            });
    return trainable;
  }

  /** {@code model}, after it was moved to where it is to compute. */
  protected static Block moved(Block model, ComputeOptions options) {
    model.moveTo(options.device());
    return model;
  }

  @Override
  public final Device device() {
    return device;
  }

  @Override
  public final Block model() {
    return model;
  }

  @Override
  public final Communicator communicator() {
    return communicator;
  }

  @Override
  public Map<String, Tensor> trainable() {
    return trainableParameters(model);
  }

  @Override
  public final Tensor forwardBackward(
      Tensor[] inputs,
      Tensor target,
      @Nullable Tensor weight,
      Loss loss,
      double scale,
      GradientSync sync) {
    requireReady();
    double lossScale = scaler == null ? scale : scale * scaler.scale();
    try (var scope = NativeScope.open();
        var recorded = Gradients.on()) {
      return scope.pass(compute(inputs, target, weight, loss, lossScale, sync).detach());
    } catch (RuntimeException e) {
      state = State.FAILED;
      throw computation.explain(e);
    } catch (Error e) {
      state = State.FAILED;
      throw e;
    } finally {
      computation.release();
    }
  }

  /**
   * One forward and backward pass, with gradients recorded.
   *
   * @param weight weights of the rows, or null
   * @param scale factor on the loss before backward
   * @return the unscaled loss
   */
  protected Tensor compute(
      Tensor[] inputs,
      Tensor target,
      @Nullable Tensor weight,
      Loss loss,
      double scale,
      GradientSync sync) {
    beforeForward(sync);
    Tensor value = computation.loss(inputs, target, weight, loss);
    backward(scale == 1 ? value : value.mul(Tensors.scalar(scale)), sync);
    return value;
  }

  /** Acts before the model runs. */
  protected void beforeForward(GradientSync sync) {}

  /** Runs backward from {@code loss} and leaves combined gradients when {@code sync} says so. */
  protected abstract void backward(Tensor loss, GradientSync sync);

  @Override
  public final Tensor predict(Tensor... inputs) {
    requireReady();
    try (var off = Gradients.off()) {
      return output(inputs);
    } catch (RuntimeException e) {
      throw computation.explain(e);
    }
  }

  /** The model's output, without gradients recorded. */
  protected Tensor output(Tensor... inputs) {
    return computation.output(inputs);
  }

  /** Runs the model as the options say. */
  protected final Computation computation() {
    return computation;
  }

  @Override
  public boolean unscaleGradients() {
    requireReady();
    return scaler == null || scaler.unscale(trainable().values(), communicator);
  }

  @Override
  public Map<String, Double> scalerState() {
    return scaler == null ? Map.of() : scaler.state();
  }

  @Override
  public void loadScalerState(Map<String, Double> saved) {
    if (scaler == null) {
      ParallelStrategy.super.loadScalerState(saved);
    } else {
      scaler.loadState(saved);
    }
  }

  @Override
  public double clipGradNorm(double maxNorm) {
    requireReady();
    return Clipping.byNorm(trainable(), maxNorm);
  }

  @Override
  public void clipGradValue(double limit) {
    requireReady();
    Clipping.byValue(trainable(), limit);
  }

  @Override
  public void zeroGrad() {
    requireReady();
    trainable().values().forEach(Tensors::clearGrad);
  }

  @Override
  public Map<String, Tensor> fullState() {
    requireReady();
    Map<String, Tensor> full = new LinkedHashMap<>();
    if (rank() == 0) {
      model.state().forEach((name, tensor) -> full.put(name, tensor.detach().cpu()));
    }
    communicator.requireIntact();
    return full;
  }

  /** Runs part of a step outside of {@link #forwardBackward}; what it throws ends the training. */
  protected final void guarded(Runnable part) {
    requireReady();
    try {
      part.run();
    } catch (RuntimeException | Error e) {
      state = State.FAILED;
      throw e;
    }
  }

  /**
   * Guards every operation of a step.
   *
   * @throws IllegalStateException if the strategy is closed or has failed
   */
  protected final void requireReady() {
    if (state != State.READY) {
      throw new IllegalStateException(
          "Cannot go on training with %s: expected state ready, got %s (rank %d of %d). Start a new training."
              .formatted(name(), state.name().toLowerCase(Locale.ROOT), rank(), worldSize()));
    }
  }

  /** Notes that a collective operation broke off, after which the strategy can only be closed. */
  protected final void fail() {
    if (state == State.READY) {
      state = State.FAILED;
    }
  }

  @Override
  public void close() {
    if (state != State.CLOSED) {
      boolean healthy = state == State.READY;
      state = State.CLOSED;
      release();
      computation.close();
      if (healthy) {
        communicator.close();
      } else {
        communicator.abort("the training failed on rank " + rank());
      }
      model.close();
    }
  }

  /** Gives back what the strategy itself holds; called once, before the communicator closes. */
  protected void release() {}

  @Override
  public void abort(String reason) {
    fail();
    communicator.abort(reason);
  }

  /** Bytes of {@code tensor}'s elements. */
  protected static long bytes(Tensor tensor) {
    return tensor.numel() * DType.of(tensor).bytes();
  }
}
