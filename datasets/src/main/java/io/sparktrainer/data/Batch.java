package io.sparktrainer.data;

import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * One rank's batch of one step. Its memory is valid until the next call of {@link
 * BatchReader#next()} or {@link BatchReader#close()}: copy what has to live longer.
 *
 * @param step step of the epoch, from 0
 * @param rows rows; 0 where this rank only joins the collectives of the others
 * @param inputs the model's inputs in the schema's order
 * @param label the label, or null where the schema has none
 * @param weight the sample weights, or null where the schema has none
 */
public record Batch(
    long step,
    int rows,
    List<TensorBuffer> inputs,
    @Nullable TensorBuffer label,
    @Nullable TensorBuffer weight) {
  /**
   * An input by name.
   *
   * @throws IllegalArgumentException where there is none of that name
   */
  public TensorBuffer input(String name) {
    for (TensorBuffer input : inputs) {
      if (input.spec().name().equals(name)) {
        return input;
      }
    }
    throw new IllegalArgumentException(
        "Cannot find input '%s': expected one of %s."
            .formatted(name, inputs.stream().map(input -> input.spec().name()).toList()));
  }
}
