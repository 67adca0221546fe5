package io.sparktrainer.data;

import java.io.Serializable;

/** What happens to a null or a NaN in a column that is read. */
public sealed interface MissingValues extends Serializable {
  /** The read fails, naming the column and the row. The default. */
  static MissingValues fail() {
    return new Fail();
  }

  /** The value is replaced; for arrays and vectors, each of their elements. */
  static MissingValues fill(double value) {
    return new Fill(value);
  }

  /** The whole row is left out. */
  static MissingValues drop() {
    return new Drop();
  }

  /** NaN only: the value goes into the tensor as it is. */
  static MissingValues keep() {
    return new Keep();
  }

  /** See {@link #fail()}. */
  record Fail() implements MissingValues {}

  /**
   * See {@link #fill(double)}.
   *
   * @param value the replacement; it has to be finite
   */
  record Fill(double value) implements MissingValues {
    public Fill {
      if (!Double.isFinite(value)) {
        throw new IllegalArgumentException(
            "Cannot fill missing values: expected a finite number, got %s.".formatted(value));
      }
    }
  }

  /** See {@link #drop()}. */
  record Drop() implements MissingValues {}

  /** See {@link #keep()}. */
  record Keep() implements MissingValues {}
}
