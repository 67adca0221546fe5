package io.sparktrainer.data;

import static java.util.Objects.requireNonNull;

import java.io.Serializable;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * One tensor to be made from one or several columns, whose values are laid one after the other.
 *
 * @param name the tensor's name
 * @param columns the columns it is made from, at least one
 * @param type element type; null means FLOAT32 for inputs and the default of {@link
 *     DataSpec.Builder#label} for labels
 * @param rowShape shape of one row; null means what the columns give: {@code [sum of elements]} for
 *     several columns or a scalar one, the array's own shape for a single array or image
 * @param ragged what to do with arrays of different lengths; null means that it is an error
 * @param image how images are decoded; null leaves binary columns as bytes and images unscaled
 */
public record InputSpec(
    String name,
    List<String> columns,
    @Nullable ElementType type,
    @Nullable List<Long> rowShape,
    @Nullable Ragged ragged,
    @Nullable ImageSpec image)
    implements Serializable {
  public InputSpec {
    requireNonNull(name, "name");
    columns = List.copyOf(columns);
    if (columns.isEmpty()) {
      throw new IllegalArgumentException(
          "Cannot read tensor '%s': expected at least one column, got 0.".formatted(name));
    }
    if (rowShape != null) {
      rowShape = List.copyOf(rowShape);
    }
  }

  /** An input of FLOAT32 with the shape that the columns give. */
  public static InputSpec of(String name, String... columns) {
    return new InputSpec(name, List.of(columns), null, null, null, null);
  }

  /** The same with another element type. */
  public InputSpec withType(ElementType newType) {
    return new InputSpec(name, columns, newType, rowShape, ragged, image);
  }

  /** The same with another shape per row; it has to hold as many elements as the columns give. */
  public InputSpec withRowShape(long... newShape) {
    List<Long> shape = java.util.Arrays.stream(newShape).boxed().toList();
    return new InputSpec(name, columns, type, shape, ragged, image);
  }

  /** The same, arrays padded or cut to a fixed length. */
  public InputSpec withRagged(Ragged newRagged) {
    return new InputSpec(name, columns, type, rowShape, newRagged, image);
  }

  /** The same, images decoded and resized. */
  public InputSpec withImage(ImageSpec newImage) {
    return new InputSpec(name, columns, type, rowShape, ragged, newImage);
  }

  /**
   * Arrays of different lengths become tensors of one length: shorter ones are padded at the end.
   *
   * @param length elements along the first axis of the array
   * @param padValue value of the elements that are missing
   * @param longer what happens to longer arrays
   */
  public record Ragged(int length, double padValue, Longer longer) implements Serializable {
    /** What happens to arrays longer than the length. */
    public enum Longer {
      /** The read fails, naming column and row. */
      FAIL,
      /** The rest is cut off. */
      CUT
    }

    public Ragged {
      requireNonNull(longer, "longer");
      if (length < 1) {
        throw new IllegalArgumentException(
            "Cannot pad arrays: expected a length of at least 1, got %d.".formatted(length));
      }
    }
  }
}
