package io.sparktrainer.spark.config;

/**
 * Which numbers a key allows.
 *
 * @param low smallest number
 * @param high largest number
 * @param lowIncluded whether {@code low} itself is allowed; {@code high} is not, unless infinite
 */
record NumberRange(double low, double high, boolean lowIncluded) {
  static final NumberRange ANY =
      new NumberRange(Double.NEGATIVE_INFINITY, Double.POSITIVE_INFINITY, false);
  static final NumberRange POSITIVE = new NumberRange(0, Double.POSITIVE_INFINITY, false);
  static final NumberRange NOT_NEGATIVE = new NumberRange(0, Double.POSITIVE_INFINITY, true);

  /** From 0 to 1, without 1. */
  static final NumberRange FRACTION = new NumberRange(0, 1, true);

  boolean contains(double value) {
    return Double.isFinite(value) && (lowIncluded ? value >= low : value > low) && value < high;
  }

  @Override
  public String toString() {
    if (Double.isInfinite(low)) {
      return "a number";
    }
    String lower = (lowIncluded ? "a number of at least " : "a number above ") + text(low);
    return Double.isInfinite(high) ? lower : lower + " and below " + text(high);
  }

  private static String text(double value) {
    return value == Math.rint(value) ? String.valueOf((long) value) : String.valueOf(value);
  }
}
