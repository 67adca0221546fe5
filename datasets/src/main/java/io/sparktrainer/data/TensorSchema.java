package io.sparktrainer.data;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * The tensors that every batch of a data set holds, resolved against a DataFrame's schema.
 *
 * @param inputs the model's inputs in the order of the {@link DataSpec}, at least one
 * @param label the label, or null where there is none
 * @param weight the sample weight, a scalar per row, or null where there is none
 */
public record TensorSchema(
    List<TensorSpec> inputs, @Nullable TensorSpec label, @Nullable TensorSpec weight)
    implements Serializable {
  /** Name of the label's tensor. */
  public static final String LABEL = "label";

  /** Name of the sample weight's tensor. */
  public static final String WEIGHT = "weight";

  public TensorSchema {
    inputs = List.copyOf(inputs);
    if (inputs.isEmpty()) {
      throw new IllegalArgumentException("Cannot build a tensor schema: expected an input, got 0.");
    }
    Set<String> names = new HashSet<>();
    for (TensorSpec input : inputs) {
      if (!names.add(input.name()) || input.name().equals(LABEL) || input.name().equals(WEIGHT)) {
        throw new IllegalArgumentException(
            "Cannot build a tensor schema: input name '%s' is used twice or reserved. Rename it."
                .formatted(input.name()));
      }
    }
  }

  /** All tensors: inputs, then label, then weight. Batches hold them in this order. */
  public List<TensorSpec> tensors() {
    List<TensorSpec> all = new ArrayList<>(inputs);
    if (label != null) {
      all.add(label);
    }
    if (weight != null) {
      all.add(weight);
    }
    return List.copyOf(all);
  }

  /** Bytes that one row takes over all tensors. */
  public int rowBytes() {
    int bytes = 0;
    for (TensorSpec tensor : tensors()) {
      bytes = Math.addExact(bytes, tensor.rowBytes());
    }
    return bytes;
  }
}
