package io.sparktrainer.data;

import static java.util.Objects.requireNonNull;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * How a DataFrame is to be read: which columns make which tensors, and how rows become batches.
 *
 * @param inputs the model's inputs, at least one
 * @param label the label, or null
 * @param weightColumn column with a sample weight, or null
 * @param nulls what happens to nulls
 * @param nans what happens to NaN in floating columns
 * @param batchRows rows per batch and rank, at least 1
 * @param order order of the rows within an epoch
 * @param seed seed of the order and of {@link Validation#fraction}
 * @param balance what evens out ranks with different numbers of rows
 * @param memoryBudgetBytes direct memory that one rank may use to keep its rows, 0 to choose half
 *     of what the JVM may use, shared by the ranks of one JVM; rows beyond it go to local disk
 * @param spillDirectory folder for rows beyond the budget, or null for Spark's local folder
 * @param validation where validation rows come from
 */
public record DataSpec(
    List<InputSpec> inputs,
    @Nullable InputSpec label,
    @Nullable String weightColumn,
    MissingValues nulls,
    MissingValues nans,
    int batchRows,
    Order order,
    long seed,
    Balance balance,
    long memoryBudgetBytes,
    @Nullable String spillDirectory,
    Validation validation)
    implements Serializable {
  /** Order of the rows within an epoch. */
  public enum Order {
    /** Shuffled over the rank's whole share, anew in each epoch. */
    SHUFFLED,
    /** As in the DataFrame. */
    SEQUENTIAL
  }

  public DataSpec {
    inputs = List.copyOf(inputs);
    requireNonNull(nulls, "nulls");
    requireNonNull(nans, "nans");
    requireNonNull(order, "order");
    requireNonNull(balance, "balance");
    requireNonNull(validation, "validation");
    if (inputs.isEmpty()) {
      throw new IllegalArgumentException(
          "Cannot read data: expected at least one input, got 0. Name the feature columns.");
    }
    if (batchRows < 1) {
      throw new IllegalArgumentException(
          "Cannot read data: expected a batch size of at least 1, got %d.".formatted(batchRows));
    }
    if (memoryBudgetBytes < 0) {
      throw new IllegalArgumentException(
          "Cannot read data: expected a memory budget of 0 or more bytes, got %d."
              .formatted(memoryBudgetBytes));
    }
    if (nulls instanceof MissingValues.Keep) {
      throw new IllegalArgumentException(
          "Cannot keep nulls: a tensor has no null. Choose fail, fill or drop.");
    }
  }

  /** A builder with the defaults: batches of 32, shuffled, seed 0, repartitioned, nulls fail. */
  public static Builder builder() {
    return new Builder();
  }

  /** A builder that starts from this. */
  public Builder toBuilder() {
    Builder builder = new Builder();
    builder.inputs.addAll(inputs);
    builder.label = label;
    builder.weightColumn = weightColumn;
    builder.nulls = nulls;
    builder.nans = nans;
    builder.batchRows = batchRows;
    builder.order = order;
    builder.seed = seed;
    builder.balance = balance;
    builder.memoryBudgetBytes = memoryBudgetBytes;
    builder.spillDirectory = spillDirectory;
    builder.validation = validation;
    return builder;
  }

  /** Builds a {@link DataSpec}. */
  public static final class Builder {
    private final List<InputSpec> inputs = new ArrayList<>();
    private @Nullable InputSpec label;
    private @Nullable String weightColumn;
    private MissingValues nulls = MissingValues.fail();
    private MissingValues nans = MissingValues.fail();
    private int batchRows = 32;
    private Order order = Order.SHUFFLED;
    private long seed;
    private Balance balance = Balance.REPARTITION;
    private long memoryBudgetBytes;
    private @Nullable String spillDirectory;
    private Validation validation = Validation.none();

    private Builder() {}

    /** Adds an input named {@code features}, FLOAT32, from these columns. */
    public Builder features(String... columns) {
      return input(InputSpec.of("features", columns));
    }

    /** Adds an input. */
    public Builder input(InputSpec input) {
      inputs.add(requireNonNull(input, "input"));
      return this;
    }

    /**
     * Makes the label from these columns: INT64 where all are boolean, integer or date columns,
     * else FLOAT32. One scalar column gives a scalar per row, several give {@code [columns]}.
     */
    public Builder label(String... columns) {
      return label(InputSpec.of(TensorSchema.LABEL, columns));
    }

    /**
     * Makes the label as the spec says. INT64 from a floating column (such as StringIndexer's)
     * accepts whole numbers only.
     */
    public Builder label(InputSpec spec) {
      this.label =
          new InputSpec(
              TensorSchema.LABEL,
              spec.columns(),
              spec.type(),
              spec.rowShape(),
              spec.ragged(),
              spec.image());
      return this;
    }

    /** Reads a sample weight per row, FLOAT32, from this numeric column. */
    public Builder weight(String column) {
      this.weightColumn = requireNonNull(column, "column");
      return this;
    }

    /** What happens to nulls; the default is to fail. */
    public Builder nulls(MissingValues policy) {
      this.nulls = policy;
      return this;
    }

    /** What happens to NaN; the default is to fail. */
    public Builder nans(MissingValues policy) {
      this.nans = policy;
      return this;
    }

    /** Rows per batch and rank; 32 by default. */
    public Builder batchRows(int rows) {
      this.batchRows = rows;
      return this;
    }

    /** Order of the rows within an epoch; shuffled by default. */
    public Builder order(Order newOrder) {
      this.order = newOrder;
      return this;
    }

    /** Seed of the order and of the validation split; 0 by default. */
    public Builder seed(long newSeed) {
      this.seed = newSeed;
      return this;
    }

    /** How ranks come to the same number of steps; repartitioned by default. */
    public Builder balance(Balance newBalance) {
      this.balance = newBalance;
      return this;
    }

    /** Direct memory per rank in bytes; 0, the default, chooses. */
    public Builder memoryBudgetBytes(long bytes) {
      this.memoryBudgetBytes = bytes;
      return this;
    }

    /** Folder for rows beyond the memory budget; by default Spark's local folder. */
    public Builder spillDirectory(String directory) {
      this.spillDirectory = requireNonNull(directory, "directory");
      return this;
    }

    /** Where validation rows come from; none by default. */
    public Builder validation(Validation newValidation) {
      this.validation = newValidation;
      return this;
    }

    /**
     * Checks and builds.
     *
     * @throws IllegalArgumentException naming what is wrong
     */
    public DataSpec build() {
      return new DataSpec(
          inputs,
          label,
          weightColumn,
          nulls,
          nans,
          batchRows,
          order,
          seed,
          balance,
          memoryBudgetBytes,
          spillDirectory,
          validation);
    }
  }
}
