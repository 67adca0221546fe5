package io.sparktrainer.optim;

/** Options of {@link OptimizerSpec.Sgd} by name; what is not set keeps its default. */
public final class SgdBuilder {
  private double lr = 1e-3;
  private double momentum;
  private double dampening;
  private boolean nesterov;
  private double weightDecay;

  SgdBuilder() {}

  public SgdBuilder lr(double value) {
    this.lr = value;
    return this;
  }

  public SgdBuilder momentum(double value) {
    this.momentum = value;
    return this;
  }

  public SgdBuilder dampening(double value) {
    this.dampening = value;
    return this;
  }

  public SgdBuilder nesterov(boolean value) {
    this.nesterov = value;
    return this;
  }

  public SgdBuilder weightDecay(double value) {
    this.weightDecay = value;
    return this;
  }

  /**
   * @throws IllegalArgumentException if an option is out of its range
   */
  public OptimizerSpec.Sgd build() {
    return new OptimizerSpec.Sgd(lr, momentum, dampening, nesterov, weightDecay);
  }
}
