package io.sparktrainer.data;

/** Refuses sample weights that are no weights. */
final class WeightCheck {
  private final String column;
  private final int offset;

  private WeightCheck(String column, int offset) {
    this.column = column;
    this.offset = offset;
  }

  /** For the records of a plan, which hold the weight last, if there is one. */
  static WeightCheck of(ReadPlan plan) {
    return plan.schema().weight() == null
        ? new WeightCheck("", -1)
        : new WeightCheck(
            plan.columns().get(plan.columns().size() - 1).column(),
            plan.recordBytes() - Float.BYTES);
  }

  boolean isNeeded() {
    return offset >= 0;
  }

  /**
   * Checks the record at {@code base}.
   *
   * @throws IllegalArgumentException if its weight is negative or not finite
   */
  void check(byte[] records, int base, RowPlace place) {
    if (offset < 0) {
      return;
    }
    float weight = Bytes.getFloat(records, base + offset);
    if (!(weight >= 0 && weight < Float.POSITIVE_INFINITY)) {
      throw new IllegalArgumentException(
          "Cannot use column '%s' as weight: expected a finite number of at least 0, got %s in %s. Filter such rows, or compute other weights."
              .formatted(column, weight, place));
    }
  }
}
