package io.sparktrainer.spark.config;

import static java.util.Objects.requireNonNull;

import io.sparktrainer.data.Validation;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Section {@code data}.
 *
 * @param source where the DataFrame is; null where the program brings it
 * @param features columns that make the model's input, laid one after the other, as float32
 * @param shape shape of one row's input, such as [1, 28, 28]; empty for the one that the columns
 *     give
 * @param label column of the label
 * @param validation rows that are kept back for testing
 * @param shuffle whether every epoch visits the rows in a new order
 * @param seed seed of that order and of the split
 * @param rows what happens to missing values, uneven shares and rows beyond the memory
 */
public record DataConfig(
    @Nullable DataSource source,
    List<String> features,
    List<Integer> shape,
    String label,
    Validation validation,
    boolean shuffle,
    long seed,
    RowOptions rows) {
  public DataConfig {
    features = List.copyOf(features);
    shape = List.copyOf(shape);
    requireNonNull(label, "label");
    if (features.isEmpty()) {
      throw new IllegalArgumentException("Cannot use features []: expected at least one column.");
    }
    requireNonNull(validation, "validation");
    requireNonNull(rows, "rows");
  }

  public static Builder builder() {
    return new Builder();
  }

  /** Sets values by name; what is not set keeps its default. */
  public static final class Builder {
    private @Nullable DataSource source;
    private List<String> features = List.of();
    private List<Integer> shape = List.of();
    private @Nullable String label;
    private Validation validation = Validation.none();
    private boolean shuffle = true;
    private long seed;
    private RowOptions rows = RowOptions.defaults();

    /** Where the DataFrame is; unset where the program brings it. */
    public Builder source(@Nullable DataSource newSource) {
      this.source = newSource;
      return this;
    }

    public Builder features(String... columns) {
      this.features = List.of(columns);
      return this;
    }

    public Builder features(List<String> columns) {
      this.features = columns;
      return this;
    }

    /** Shape of one row's input; by default the one that the columns give. */
    public Builder shape(List<Integer> sizes) {
      this.shape = sizes;
      return this;
    }

    /** Shape of one row's input; by default the one that the columns give. */
    public Builder shape(Integer... sizes) {
      return shape(List.of(sizes));
    }

    public Builder label(String column) {
      this.label = column;
      return this;
    }

    /** Part of the rows that is kept back for testing; 0, none, by default. */
    public Builder validation(double fraction) {
      return validation(fraction == 0 ? Validation.none() : Validation.fraction(fraction));
    }

    /** Rows that are kept back for testing; none by default. */
    public Builder validation(Validation value) {
      this.validation = value;
      return this;
    }

    /** Missing values, uneven shares, memory. */
    public Builder rows(RowOptions options) {
      this.rows = options;
      return this;
    }

    /** Whether every epoch visits the rows in a new order; true by default. */
    public Builder shuffle(boolean value) {
      this.shuffle = value;
      return this;
    }

    /** 0 by default. */
    public Builder seed(long value) {
      this.seed = value;
      return this;
    }

    /**
     * @throws IllegalArgumentException if features or label are not set, or a value is not allowed
     */
    public DataConfig build() {
      if (label == null) {
        throw new IllegalArgumentException(
            "Cannot use the data: expected a label column, got none.");
      }
      return new DataConfig(source, features, shape, label, validation, shuffle, seed, rows);
    }
  }
}
