package io.sparktrainer.parity;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.Locale;
import java.util.Map;

/** How far a run is from its golden case. */
final class Deviations {
  private double loss;
  private double gradNorm;
  private double weight;
  private String furthest = "none";
  private double update;

  /** The largest relative difference of any step. */
  void addLosses(List<Double> expected, List<Double> got) {
    loss = Math.max(loss, largestRelative(expected, got));
  }

  /** The largest relative difference of any step. */
  void addGradNorms(List<Double> expected, List<Double> got) {
    gradNorm = Math.max(gradNorm, largestRelative(expected, got));
  }

  private static double largestRelative(List<Double> expected, List<Double> got) {
    assertThat(got).as("one number per step, as in %s", expected).hasSameSizeAs(expected);
    double largest = 0;
    for (int i = 0; i < expected.size(); i++) {
      double difference = Math.abs(got.get(i) - expected.get(i));
      largest = Math.max(largest, orInfinity(difference / Math.abs(expected.get(i))));
    }
    return largest;
  }

  /**
   * The largest difference of any weight, relative to weights above 1 and absolute below; and the
   * 2-norm of all differences relative to that of all updates.
   */
  void addWeights(
      Map<String, double[]> initial, Map<String, double[]> expected, Map<String, double[]> got) {
    assertThat(got.keySet()).containsExactlyInAnyOrderElementsOf(expected.keySet());
    double squaredDifference = 0;
    double squaredUpdate = 0;
    for (String name : expected.keySet()) {
      double[] wanted = expected.get(name);
      assertThat(got.get(name)).as(name).hasSameSizeAs(wanted);
      for (int i = 0; i < wanted.length; i++) {
        double difference = Math.abs(got.get(name)[i] - wanted[i]);
        double moved = wanted[i] - initial.get(name)[i];
        double relative = orInfinity(difference / Math.max(1, Math.abs(wanted[i])));
        if (relative > weight) {
          weight = relative;
          furthest = name;
        }
        squaredDifference += difference * difference;
        squaredUpdate += moved * moved;
      }
    }
    update = orInfinity(Math.sqrt(squaredDifference / squaredUpdate));
  }

  /** A result that is not a number is as far away as can be. */
  private static double orInfinity(double value) {
    return Double.isNaN(value) ? Double.POSITIVE_INFINITY : value;
  }

  /**
   * Rounding of float32 or bfloat16 alone. Adam's first steps magnify it where a gradient is zero
   * but for rounding, such as that of the keys' bias in attention: single weights may then be
   * further away than all of them together.
   */
  void check(GoldenCase golden) {
    boolean half = golden.isHalfPrecision();
    boolean adam = golden.optimizer().path("name").asText().startsWith("adam");
    assertThat(loss).as("largest relative difference of a loss").isLessThan(half ? 1e-2 : 1e-5);
    assertThat(gradNorm)
        .as("largest relative difference of a gradient norm")
        .isLessThan(half ? 1e-2 : 1e-5);
    assertThat(update)
        .as("norm of the differences by norm of the updates")
        .isLessThan(half ? 1e-1 : adam ? 1e-3 : 1e-4);
    if (!adam) {
      assertThat(weight).as("largest difference of a weight").isLessThan(half ? 1e-2 : 1e-4);
    }
  }

  @Override
  public String toString() {
    return String.format(
        Locale.ROOT,
        "loss %.1e, gradient norm %.1e, weight %.1e (%s), update %.1e",
        loss,
        gradNorm,
        weight,
        furthest,
        update);
  }
}
