package io.sparktrainer.spark;

import static java.util.Objects.requireNonNull;

import io.sparktrainer.data.ElementType;
import java.io.Serializable;
import java.util.List;

/**
 * What the data asks of a model. A model class whose public constructor takes one is built for the
 * data.
 *
 * @param inputs the tensors that the model is called with, in this order
 * @param outputs outputs per row: classes for cross-entropy, else values of the label
 */
public record ModelShape(List<Input> inputs, long outputs) implements Serializable {
  /**
   * One tensor.
   *
   * @param name as in the configuration
   * @param rowShape shape of one row, without the batch axis
   * @param type element type
   * @param categories for each value of a row of whole numbers how many categories there are, from
   *     0 up; empty where nobody has counted them
   */
  public record Input(String name, List<Long> rowShape, ElementType type, List<Integer> categories)
      implements Serializable {
    public Input {
      requireNonNull(name, "name");
      rowShape = List.copyOf(rowShape);
      requireNonNull(type, "type");
      categories = List.copyOf(categories);
    }

    /** Values of one row. */
    public long values() {
      return rowShape.stream().reduce(1L, Math::multiplyExact);
    }
  }

  public ModelShape {
    inputs = List.copyOf(inputs);
    if (inputs.isEmpty() || outputs < 1) {
      throw new IllegalArgumentException(
          "Cannot shape a model: expected at least 1 input and 1 output, got %d inputs and %d outputs."
              .formatted(inputs.size(), outputs));
    }
  }

  /** A shape with one input of floats. */
  public static ModelShape of(List<Long> rowShape, long outputs) {
    return new ModelShape(
        List.of(new Input("features", rowShape, ElementType.FLOAT32, List.of())), outputs);
  }

  /**
   * An input by name.
   *
   * @throws IllegalArgumentException if there is none of that name
   */
  public Input input(String name) {
    for (Input input : inputs) {
      if (input.name().equals(name)) {
        return input;
      }
    }
    throw new IllegalArgumentException(
        "Cannot find input '%s' of the data: expected one of %s. Name it under data.inputs."
            .formatted(name, inputs.stream().map(Input::name).toList()));
  }

  /** Values of one row of all inputs together. */
  public long inputValues() {
    return inputs.stream().mapToLong(Input::values).sum();
  }
}
