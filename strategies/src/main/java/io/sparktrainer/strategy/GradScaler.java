package io.sparktrainer.strategy;

import io.sparktrainer.comm.Communicator;
import io.sparktrainer.comm.ReduceOp;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.Gradients;
import io.sparktrainer.torch.NativeOperator;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Dynamic loss scaling (Micikevicius et al., arXiv 1710.03740), with the rule and the defaults of
 * PyTorch's {@code GradScaler}: the loss is multiplied by a scale so that small gradients survive
 * float16; the gradients are divided by it again; a step with a gradient that is not finite is
 * skipped and the scale halved; after enough good steps in a row it is doubled. All ranks take the
 * same decision, because the ranks' findings are combined.
 */
public final class GradScaler {
  private static final Logger LOG = LoggerFactory.getLogger(GradScaler.class);

  /** Below this, scaling cannot be what makes values overflow. */
  private static final double SMALLEST_SCALE = 1.0 / (1 << 14);

  private static final String SCALE = "scale";
  private static final String GOOD_STEPS = "good_steps";

  private final Options options;
  private double scale;
  private int goodSteps;

  /**
   * @param initialScale scale of the first step
   * @param growthFactor factor on the scale after {@code growthInterval} good steps in a row, more
   *     than 1
   * @param backoffFactor factor on the scale after a skipped step, in (0, 1)
   * @param growthInterval in steps
   */
  public record Options(
      double initialScale, double growthFactor, double backoffFactor, int growthInterval) {
    public Options {
      boolean valid =
          initialScale > 0
              && Double.isFinite(initialScale)
              && growthFactor > 1
              && backoffFactor > 0
              && backoffFactor < 1
              && growthInterval > 0;
      if (!valid) {
        throw new IllegalArgumentException(
            "Cannot scale the loss: expected an initial scale above 0, growth above 1, backoff in (0, 1) and an interval of at least 1 step, got %s, %s, %s and %d."
                .formatted(initialScale, growthFactor, backoffFactor, growthInterval));
      }
    }

    /** 65,536, doubled after 2,000 good steps, halved after a skipped one. */
    public static Options defaults() {
      return new Options(65_536, 2, 0.5, 2000);
    }
  }

  public GradScaler(Options options) {
    this.options = options;
    this.scale = options.initialScale();
  }

  /** Factor on the loss of the current step. */
  public double scale() {
    return scale;
  }

  /**
   * Divides the gradients of {@code parameters} by the scale, and adapts the scale for the next
   * step. All ranks of {@code communicator} call it together, once per step, before clipping.
   *
   * @return whether all gradients of all ranks are finite; if not, the optimizer must not step
   * @throws ArithmeticException on all ranks, if the scale has become so small that it cannot be
   *     the reason why values overflow
   */
  public boolean unscale(Collection<Tensor> parameters, Communicator communicator) {
    boolean finite;
    try (var scope = NativeScope.open();
        var off = Gradients.off()) {
      Tensor found = divide(parameters);
      communicator.allReduce(found, ReduceOp.MAX).awaitOnHost();
      finite = found.item_double() == 0;
    }
    adapt(finite, communicator);
    return finite;
  }

  /** The result is 1 if some gradient is not finite, else 0. */
  private Tensor divide(Collection<Tensor> parameters) {
    List<Tensor> gradients = new ArrayList<>();
    Device device = Device.CPU;
    for (Tensor parameter : parameters) {
      device = Device.of(parameter);
      Tensor gradient = parameter.grad();
      if (gradient.defined() && gradient.numel() > 0) {
        gradients.add(gradient);
      }
    }
    Tensor found = Tensors.zeros(DType.FLOAT32, device, 1);
    if (!gradients.isEmpty()) {
      Tensor inverse = Tensors.zeros(DType.FLOAT32, device, 1).fill_(Tensors.scalar(1 / scale));
      CheckAndUnscale.OPERATOR.call().with(gradients).with(found).with(inverse).run();
    }
    return found;
  }

  private static final class CheckAndUnscale {
    static final NativeOperator OPERATOR =
        NativeOperator.find("aten::_amp_foreach_non_finite_check_and_unscale_", "");
  }

  private void adapt(boolean finite, Communicator communicator) {
    if (finite) {
      goodSteps++;
      double larger = scale * options.growthFactor();
      if (goodSteps == options.growthInterval()) {
        goodSteps = 0;
        scale = Float.isFinite((float) larger) ? larger : scale;
      }
      return;
    }
    goodSteps = 0;
    scale *= options.backoffFactor();
    LOG.info(
        "Skipped a step with gradients beyond float16's range; the loss scale is now {} (rank {})",
        scale,
        communicator.rank());
    if (scale < SMALLEST_SCALE) {
      throw new ArithmeticException(
          "gradients are not finite even with a loss scale of %s (rank %d of %d). Use mixed_precision bf16, lower the learning rate, or look for values out of range in the features"
              .formatted(scale, communicator.rank(), communicator.worldSize()));
    }
  }

  /** What has to be saved to go on later, the same on every rank. */
  public Map<String, Double> state() {
    return Map.of(SCALE, scale, GOOD_STEPS, (double) goodSteps);
  }

  /**
   * Continues from a {@link #state()}.
   *
   * @throws IllegalArgumentException if {@code state} is not one
   */
  public void loadState(Map<String, Double> state) {
    Double savedScale = state.get(SCALE);
    Double savedSteps = state.get(GOOD_STEPS);
    if (savedScale == null || savedSteps == null || !(savedScale > 0) || !(savedSteps >= 0)) {
      throw new IllegalArgumentException(
          "Cannot load the state of a gradient scaler: expected %s above 0 and %s of at least 0, got %s."
              .formatted(SCALE, GOOD_STEPS, state));
    }
    scale = savedScale;
    goodSteps = savedSteps.intValue();
  }
}
