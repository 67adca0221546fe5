package io.sparktrainer.data;

import static java.util.Objects.requireNonNull;

import java.io.Serializable;

/** Where the validation rows come from. */
public sealed interface Validation extends Serializable {
  /** No validation rows. */
  static Validation none() {
    return new None();
  }

  /**
   * One row of every 1/{@code fraction} goes to the validation set, which one is decided by the
   * data seed, the row's partition and its place in it: exact to within a row per partition, and
   * the same for the same DataFrame and seed.
   */
  static Validation fraction(double fraction) {
    return new Fraction(fraction);
  }

  /** Rows where this boolean or numeric column is true or not 0 are validation rows. */
  static Validation column(String column) {
    return new Column(column);
  }

  /** See {@link #none()}. */
  record None() implements Validation {}

  /**
   * See {@link #fraction(double)}.
   *
   * @param fraction between 0 and 1, both excluded
   */
  record Fraction(double fraction) implements Validation {
    public Fraction {
      if (!(fraction > 0 && fraction < 1)) {
        throw new IllegalArgumentException(
            "Cannot split off validation rows: expected a fraction between 0 and 1, got %s."
                .formatted(fraction));
      }
    }
  }

  /**
   * See {@link #column(String)}.
   *
   * @param column its name
   */
  record Column(String column) implements Validation {
    public Column {
      requireNonNull(column, "column");
    }
  }
}
