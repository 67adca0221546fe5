package io.sparktrainer.optim;

import java.util.List;

/** One parameter's update written from the papers, element by element, in doubles. */
final class Reference {
  private final OptimizerSpec spec;
  private final double[] values;
  private final double[] first;
  private final double[] second;
  private final double[] largest;
  private int steps;

  Reference(OptimizerSpec spec, double[] values) {
    this.spec = spec;
    this.values = values.clone();
    this.first = new double[values.length];
    this.second = new double[values.length];
    this.largest = new double[values.length];
  }

  double[] values() {
    return values;
  }

  List<double[]> moments() {
    return List.of(first, second);
  }

  void step(double lr, double[] gradients) {
    steps++;
    for (int i = 0; i < values.length; i++) {
      values[i] = next(i, lr, gradients[i]);
    }
  }

  private double next(int i, double lr, double gradient) {
    if (spec instanceof OptimizerSpec.Sgd sgd) {
      return sgd(sgd, i, lr, gradient);
    }
    if (spec instanceof OptimizerSpec.Adam adam) {
      return adam(adam, i, lr, values[i], gradient + adam.weightDecay() * values[i]);
    }
    OptimizerSpec.AdamW w = (OptimizerSpec.AdamW) spec;
    var plain = new OptimizerSpec.Adam(w.lr(), w.beta1(), w.beta2(), w.eps(), 0, w.amsgrad());
    return adam(plain, i, lr, values[i] * (1 - lr * w.weightDecay()), gradient);
  }

  private double sgd(OptimizerSpec.Sgd sgd, int i, double lr, double gradient) {
    double g = gradient + sgd.weightDecay() * values[i];
    if (sgd.momentum() == 0) {
      return values[i] - lr * g;
    }
    first[i] = steps == 1 ? g : sgd.momentum() * first[i] + (1 - sgd.dampening()) * g;
    return values[i] - lr * (sgd.nesterov() ? g + sgd.momentum() * first[i] : first[i]);
  }

  private double adam(OptimizerSpec.Adam adam, int i, double lr, double value, double g) {
    first[i] = adam.beta1() * first[i] + (1 - adam.beta1()) * g;
    second[i] = adam.beta2() * second[i] + (1 - adam.beta2()) * g * g;
    largest[i] = Math.max(largest[i], second[i]);
    double mean = first[i] / (1 - Math.pow(adam.beta1(), steps));
    double variance =
        (adam.amsgrad() ? largest[i] : second[i]) / (1 - Math.pow(adam.beta2(), steps));
    return value - lr * mean / (Math.sqrt(variance) + adam.eps());
  }
}
