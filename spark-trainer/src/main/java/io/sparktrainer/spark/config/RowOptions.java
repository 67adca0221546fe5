package io.sparktrainer.spark.config;

import static java.util.Objects.requireNonNull;

import io.sparktrainer.data.Balance;
import io.sparktrainer.data.MissingValues;

/**
 * Keys of {@code data} about rows that are missing something, or that there are too many of.
 *
 * @param nulls what happens to a null; the read fails by default
 * @param nans what happens to a NaN; the read fails by default
 * @param balance how ranks get equal numbers of steps; rows are dealt out equally by default
 * @param memoryBudgetMb memory for a rank's rows, in MiB, beyond which they go to local disk; 0 for
 *     no limit, the default
 */
public record RowOptions(
    MissingValues nulls, MissingValues nans, Balance balance, int memoryBudgetMb) {
  public RowOptions {
    requireNonNull(nulls, "nulls");
    requireNonNull(nans, "nans");
    requireNonNull(balance, "balance");
    if (memoryBudgetMb < 0) {
      throw new IllegalArgumentException(
          "Cannot use memory_budget_mb " + memoryBudgetMb + ": expected 0, no limit, or more.");
    }
  }

  public static RowOptions defaults() {
    return new RowOptions(MissingValues.fail(), MissingValues.fail(), Balance.REPARTITION, 0);
  }
}
