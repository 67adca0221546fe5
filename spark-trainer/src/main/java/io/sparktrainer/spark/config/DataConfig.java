package io.sparktrainer.spark.config;

import static java.util.Objects.requireNonNull;

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
 * @param validation part of the rows that is kept back for testing, 0 for none
 * @param shuffle whether every epoch visits the rows in a new order
 * @param seed seed of that order and of the split
 */
public record DataConfig(
    @Nullable DataSource source,
    List<String> features,
    List<Integer> shape,
    String label,
    double validation,
    boolean shuffle,
    long seed) {
  public DataConfig {
    features = List.copyOf(features);
    shape = List.copyOf(shape);
    requireNonNull(label, "label");
    if (features.isEmpty()) {
      throw new IllegalArgumentException("Cannot use features []: expected at least one column.");
    }
    if (!(validation >= 0 && validation < 1)) {
      throw new IllegalArgumentException(
          "Cannot use validation %s: expected at least 0 and below 1.".formatted(validation));
    }
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
    private double validation;
    private boolean shuffle = true;
    private long seed;

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
      this.validation = fraction;
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
      return new DataConfig(source, features, shape, label, validation, shuffle, seed);
    }
  }
}
