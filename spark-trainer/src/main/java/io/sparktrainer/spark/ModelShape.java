package io.sparktrainer.spark;

import java.io.Serializable;
import java.util.List;

/**
 * What the data asks of a model. A model class whose public constructor takes one is built for the
 * data.
 *
 * @param inputs shape of one row of each input, without the batch axis
 * @param outputs outputs per row: classes for cross-entropy, else values of the label
 */
public record ModelShape(List<List<Long>> inputs, long outputs) implements Serializable {
  public ModelShape {
    inputs = inputs.stream().map(List::copyOf).toList();
    if (inputs.isEmpty() || outputs < 1) {
      throw new IllegalArgumentException(
          "Cannot shape a model: expected at least 1 input and 1 output, got %d inputs and %d outputs."
              .formatted(inputs.size(), outputs));
    }
  }

  /** Values of one row of all inputs together. */
  public long inputValues() {
    return inputs.stream().mapToLong(shape -> shape.stream().reduce(1L, Math::multiplyExact)).sum();
  }
}
