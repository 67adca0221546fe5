package io.sparktrainer.spark.config;

import static java.util.Objects.requireNonNull;

import io.sparktrainer.data.ImageSpec;
import io.sparktrainer.data.InputSpec;
import io.sparktrainer.data.TensorSchema;
import io.sparktrainer.data.Validation;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Section {@code data}.
 *
 * @param source where the DataFrame is; null where the program brings it
 * @param inputs the model's inputs, in the order in which it takes them; element types that are not
 *     set are int64 for the input {@value #CATEGORIES} and for tokens of a gpt, else float32
 * @param label columns of the label; null for none, where the model's output is the loss itself
 * @param weight column of the sample weights, or null for equal weights
 * @param validation rows that are kept back for testing
 * @param validationSource where a DataFrame with rows for testing is, or null
 * @param shuffle whether every epoch visits the rows in a new order
 * @param seed seed of that order and of the split
 * @param rows what happens to missing values, uneven shares and rows beyond the memory
 */
public record DataConfig(
    @Nullable DataSource source,
    List<InputSpec> inputs,
    @Nullable InputSpec label,
    @Nullable String weight,
    Validation validation,
    @Nullable DataSource validationSource,
    boolean shuffle,
    long seed,
    RowOptions rows) {
  /** Name of the only input where the configuration names none. */
  public static final String FEATURES = "features";

  /** Name of the input whose elements are int64 unless its type is given. */
  public static final String CATEGORIES = "categories";

  public DataConfig {
    inputs = List.copyOf(inputs);
    requireNonNull(validation, "validation");
    requireNonNull(rows, "rows");
    if (inputs.isEmpty()) {
      throw new IllegalArgumentException("Cannot use features []: expected at least one column.");
    }
    Set<String> names = new HashSet<>(Set.of(TensorSchema.LABEL, TensorSchema.WEIGHT));
    for (InputSpec input : inputs) {
      if (!names.add(input.name())) {
        throw new IllegalArgumentException(
            "Cannot use an input named '%s': expected a name of its own that is not label or weight. Rename it."
                .formatted(input.name()));
      }
    }
    if (validationSource != null && !(validation instanceof Validation.None)) {
      throw new IllegalArgumentException(
          "Cannot use validation: expected one place for test rows, got a source and "
              + validation
              + ".");
    }
  }

  public static Builder builder() {
    return new Builder();
  }

  /** Sets values by name; what is not set keeps its default. */
  public static final class Builder {
    private @Nullable DataSource source;
    private final List<InputSpec> inputs = new ArrayList<>();
    private List<String> features = List.of();
    private List<Integer> shape = List.of();
    private @Nullable ImageSpec images;
    private InputSpec.@Nullable Ragged ragged;
    private @Nullable InputSpec label;
    private @Nullable String weight;
    private Validation validation = Validation.none();
    private @Nullable DataSource validationSource;
    private boolean shuffle = true;
    private long seed;
    private RowOptions rows = RowOptions.defaults();

    /** Where the DataFrame is; unset where the program brings it. */
    public Builder source(@Nullable DataSource newSource) {
      this.source = newSource;
      return this;
    }

    /** Columns of the one input of a model, laid one after the other, as float32. */
    public Builder features(String... columns) {
      return features(List.of(columns));
    }

    /** Columns of the one input of a model, laid one after the other, as float32. */
    public Builder features(List<String> columns) {
      this.features = columns;
      return this;
    }

    /** Shape of one row of {@link #features}; by default the one that the columns give. */
    public Builder shape(List<Integer> sizes) {
      this.shape = sizes;
      return this;
    }

    /** Shape of one row of {@link #features}; by default the one that the columns give. */
    public Builder shape(Integer... sizes) {
      return shape(List.of(sizes));
    }

    /** How images in {@link #features} are decoded; needed where there are some. */
    public Builder images(@Nullable ImageSpec size) {
      this.images = size;
      return this;
    }

    /** Pads arrays of different lengths in {@link #features}; an error by default. */
    public Builder ragged(InputSpec.@Nullable Ragged lengths) {
      this.ragged = lengths;
      return this;
    }

    /**
     * Adds an input for a model with several, in the order in which the model takes them, in place
     * of {@link #features}.
     */
    public Builder input(InputSpec input) {
      this.inputs.add(input);
      return this;
    }

    /**
     * Columns of the label: one number, several, an array or a vector; unset where the model's
     * output is the loss.
     */
    public Builder label(String... columns) {
      return label(columns.length == 0 ? null : InputSpec.of(TensorSchema.LABEL, columns));
    }

    /** The label with shape, type and padding. */
    public Builder label(@Nullable InputSpec spec) {
      this.label = spec;
      return this;
    }

    /** Column of the sample weights, numbers of at least 0; equal weights by default. */
    public Builder weight(@Nullable String column) {
      this.weight = column;
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

    /** Rows for testing are in a DataFrame of their own. */
    public Builder validation(@Nullable DataSource second) {
      this.validationSource = second;
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
     * @throws IllegalArgumentException if there is no input, or a value is not allowed
     */
    public DataConfig build() {
      List<InputSpec> all = new ArrayList<>(inputs);
      if (!features.isEmpty()) {
        if (!inputs.isEmpty()) {
          throw new IllegalArgumentException(
              "Cannot use features and inputs together: expected one of them, got both.");
        }
        all.add(
            new InputSpec(
                FEATURES,
                features,
                null,
                shape.isEmpty() ? null : shape.stream().map(Integer::longValue).toList(),
                ragged,
                images));
      }
      return new DataConfig(
          source, all, label, weight, validation, validationSource, shuffle, seed, rows);
    }
  }
}
