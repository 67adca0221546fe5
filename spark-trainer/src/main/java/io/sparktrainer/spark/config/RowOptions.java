package io.sparktrainer.spark.config;

import static java.util.Objects.requireNonNull;

import io.sparktrainer.data.Balance;
import io.sparktrainer.data.MissingValues;
import org.jspecify.annotations.Nullable;

/**
 * Keys of {@code data} about rows that are missing something, or that there are too many of.
 *
 * @param nulls what happens to a null; the read fails by default
 * @param nans what happens to a NaN; the read fails by default
 * @param balance how ranks get equal numbers of steps; rows are dealt out equally by default
 * @param memoryBudgetMb memory for a rank's rows, in MiB, beyond which they go to local disk; 0 for
 *     half of the direct memory that the JVM may use, the default
 * @param spillDirectory folder of each host for rows beyond it, or null for Spark's local folder
 */
public record RowOptions(
    MissingValues nulls,
    MissingValues nans,
    Balance balance,
    int memoryBudgetMb,
    @Nullable String spillDirectory) {
  public RowOptions {
    requireNonNull(nulls, "nulls");
    requireNonNull(nans, "nans");
    requireNonNull(balance, "balance");
    if (memoryBudgetMb < 0) {
      throw new IllegalArgumentException(
          "Cannot use memory_budget_mb "
              + memoryBudgetMb
              + ": expected 0, for half of the direct memory, or more.");
    }
  }

  public static RowOptions defaults() {
    return new RowOptions(MissingValues.fail(), MissingValues.fail(), Balance.REPARTITION, 0, null);
  }
}
