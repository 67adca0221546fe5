package io.sparktrainer.data;

import java.io.Serializable;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A {@link DataSpec} resolved against a DataFrame's schema.
 *
 * @param schema the tensors
 * @param selected columns to select from the DataFrame, in this order
 * @param columns how each fills the record; a column may be used several times
 * @param recordBytes bytes of one row over all tensors
 * @param indicator the validation indicator, or null
 */
record ReadPlan(
    TensorSchema schema,
    List<String> selected,
    List<ColumnPlan> columns,
    int recordBytes,
    @Nullable ColumnPlan indicator)
    implements Serializable {
  ReadPlan {
    selected = List.copyOf(selected);
    columns = List.copyOf(columns);
  }
}
