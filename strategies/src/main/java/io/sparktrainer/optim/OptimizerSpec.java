package io.sparktrainer.optim;

import java.util.Map;
import org.bytedeco.pytorch.Tensor;

/** Which optimizer to use, with its options: PyTorch's names, meanings and defaults. */
public sealed interface OptimizerSpec {
  /** The name in a configuration: {@code sgd}, {@code adam}, {@code adamw}. */
  String name();

  /** The learning rate that a schedule scales. */
  double lr();

  /**
   * Makes the optimizer.
   *
   * @param parameters what it updates, by name, floating point, on one device or several; they stay
   *     the caller's and must outlive the optimizer
   * @throws IllegalArgumentException if a parameter is not of a floating-point type, or there is
   *     none
   */
  Optimizer create(Map<String, Tensor> parameters);

  static SgdBuilder sgd() {
    return new SgdBuilder();
  }

  static AdamBuilder<Adam> adam() {
    return new AdamBuilder<>(0, Adam::new);
  }

  static AdamBuilder<AdamW> adamW() {
    return new AdamBuilder<>(0.01, AdamW::new);
  }

  /**
   * Stochastic gradient descent with momentum (Sutskever et al., 2013, in PyTorch's form: the
   * learning rate multiplies the momentum buffer).
   *
   * @param lr learning rate, default 1e-3
   * @param momentum factor on the previous update, default 0
   * @param dampening how much of a gradient does not enter the momentum, default 0
   * @param nesterov looks ahead by one momentum step; needs momentum and no dampening
   * @param weightDecay factor of the L2 penalty added to the gradient, default 0
   */
  record Sgd(double lr, double momentum, double dampening, boolean nesterov, double weightDecay)
      implements OptimizerSpec {
    public Sgd {
      requireNotNegative("sgd", "lr", lr);
      requireNotNegative("sgd", "momentum", momentum);
      requireFinite("sgd", "dampening", dampening);
      requireNotNegative("sgd", "weight_decay", weightDecay);
      if (nesterov && (momentum <= 0 || dampening != 0)) {
        throw new IllegalArgumentException(
            "Cannot use sgd with nesterov: expected momentum above 0 and dampening 0, got momentum"
                + " %s and dampening %s.".formatted(momentum, dampening));
      }
    }

    @Override
    public String name() {
      return "sgd";
    }

    @Override
    public Optimizer create(Map<String, Tensor> parameters) {
      return new FusedSgd(this, parameters);
    }
  }

  /**
   * Adam (arXiv 1412.6980). Weight decay is added to the gradient.
   *
   * @param lr learning rate, default 1e-3
   * @param beta1 decay of the mean of gradients, default 0.9
   * @param beta2 decay of the mean of squared gradients, default 0.999
   * @param eps added to the denominator, default 1e-8
   * @param weightDecay factor of the L2 penalty, default 0
   * @param amsgrad divides by the largest second moment so far (Reddi et al., 2018), default false
   */
  record Adam(
      double lr, double beta1, double beta2, double eps, double weightDecay, boolean amsgrad)
      implements OptimizerSpec {
    public Adam {
      requireAdam("adam", lr, beta1, beta2, eps, weightDecay);
    }

    @Override
    public String name() {
      return "adam";
    }

    @Override
    public Optimizer create(Map<String, Tensor> parameters) {
      return FusedAdam.of(this, parameters);
    }
  }

  /**
   * Adam with decoupled weight decay (arXiv 1711.05101): parameters shrink by lr * weightDecay a
   * step, outside the moments.
   *
   * @param lr learning rate, default 1e-3
   * @param beta1 decay of the mean of gradients, default 0.9
   * @param beta2 decay of the mean of squared gradients, default 0.999
   * @param eps added to the denominator, default 1e-8
   * @param weightDecay share of a parameter that decays, times lr, default 0.01
   * @param amsgrad divides by the largest second moment so far (Reddi et al., 2018), default false
   */
  record AdamW(
      double lr, double beta1, double beta2, double eps, double weightDecay, boolean amsgrad)
      implements OptimizerSpec {
    public AdamW {
      requireAdam("adamw", lr, beta1, beta2, eps, weightDecay);
    }

    @Override
    public String name() {
      return "adamw";
    }

    @Override
    public Optimizer create(Map<String, Tensor> parameters) {
      return FusedAdam.of(this, parameters);
    }
  }

  private static void requireAdam(
      String optimizer, double lr, double beta1, double beta2, double eps, double weightDecay) {
    requireNotNegative(optimizer, "lr", lr);
    requireDecay(optimizer, "beta1", beta1);
    requireDecay(optimizer, "beta2", beta2);
    requireNotNegative(optimizer, "eps", eps);
    requireNotNegative(optimizer, "weight_decay", weightDecay);
  }

  private static void requireDecay(String optimizer, String option, double value) {
    if (!(value >= 0 && value < 1)) {
      throw new IllegalArgumentException(
          "Cannot use %s with %s %s: expected a value in [0, 1)."
              .formatted(optimizer, option, value));
    }
  }

  private static void requireNotNegative(String optimizer, String option, double value) {
    if (!(value >= 0 && value <= Double.MAX_VALUE)) {
      throw new IllegalArgumentException(
          "Cannot use %s with %s %s: expected a finite value of at least 0."
              .formatted(optimizer, option, value));
    }
  }

  private static void requireFinite(String optimizer, String option, double value) {
    if (!Double.isFinite(value)) {
      throw new IllegalArgumentException(
          "Cannot use %s with %s %s: expected a finite value.".formatted(optimizer, option, value));
    }
  }
}
