package io.sparktrainer.optim;

/**
 * Options of {@link OptimizerSpec.Adam} or {@link OptimizerSpec.AdamW} by name; what is not set
 * keeps its default.
 *
 * @param <S> which of the two
 */
public final class AdamBuilder<S extends OptimizerSpec> {
  private final Maker<S> maker;
  private double lr = 1e-3;
  private double beta1 = 0.9;
  private double beta2 = 0.999;
  private double eps = 1e-8;
  private double weightDecay;
  private boolean amsgrad;

  AdamBuilder(double weightDecay, Maker<S> maker) {
    this.weightDecay = weightDecay;
    this.maker = maker;
  }

  /** The record's constructor. */
  @FunctionalInterface
  interface Maker<S> {
    S make(double lr, double beta1, double beta2, double eps, double weightDecay, boolean amsgrad);
  }

  public AdamBuilder<S> lr(double value) {
    this.lr = value;
    return this;
  }

  public AdamBuilder<S> beta1(double value) {
    this.beta1 = value;
    return this;
  }

  public AdamBuilder<S> beta2(double value) {
    this.beta2 = value;
    return this;
  }

  public AdamBuilder<S> eps(double value) {
    this.eps = value;
    return this;
  }

  public AdamBuilder<S> weightDecay(double value) {
    this.weightDecay = value;
    return this;
  }

  public AdamBuilder<S> amsgrad(boolean value) {
    this.amsgrad = value;
    return this;
  }

  /**
   * @throws IllegalArgumentException if an option is out of its range
   */
  public S build() {
    return maker.make(lr, beta1, beta2, eps, weightDecay, amsgrad);
  }
}
