package io.sparktrainer.data;

import static java.util.Objects.requireNonNull;

import java.util.Arrays;

/**
 * Number of steps of an epoch and the batch of every rank in every step: pure arithmetic, the same
 * on all ranks that know the same row counts.
 *
 * <p>With {@link Balance#REPARTITION}, there are {@code ceil(largest / batchRows)} steps and every
 * row is used once. A rank with fewer rows than the largest has smaller batches at the end, never
 * empty ones as long as it has as many rows as there are steps. The last batch may be smaller. What
 * the other policies do with the rest is said at {@link Balance}.
 */
public final class EpochPlan {
  private final long[] rowsPerRank;
  private final int batchRows;
  private final Balance balance;
  private final long largest;
  private final long smallest;
  private final long steps;

  private EpochPlan(long[] rowsPerRank, int batchRows, Balance balance) {
    this.rowsPerRank = rowsPerRank;
    this.batchRows = batchRows;
    this.balance = balance;
    this.largest = Arrays.stream(rowsPerRank).max().orElse(0);
    this.smallest = Arrays.stream(rowsPerRank).min().orElse(0);
    long used = balance == Balance.DROP ? smallest : largest;
    this.steps = (used + batchRows - 1) / batchRows;
  }

  /**
   * Plans an epoch.
   *
   * @param rowsPerRank rows that each rank holds, by rank
   * @param batchRows largest batch of one rank
   * @param balance the policy
   * @throws IllegalArgumentException where there are no rows at all, where PAD meets a rank without
   *     rows to repeat, or where DROP would leave nothing
   */
  public static EpochPlan of(long[] rowsPerRank, int batchRows, Balance balance) {
    requireNonNull(balance, "balance");
    if (rowsPerRank.length == 0 || batchRows < 1) {
      throw new IllegalArgumentException(
          "Cannot plan an epoch: expected at least 1 rank and batches of at least 1 row, got %d"
                  .formatted(rowsPerRank.length)
              + " ranks and batches of %d.".formatted(batchRows));
    }
    EpochPlan plan = new EpochPlan(rowsPerRank.clone(), batchRows, balance);
    if (plan.largest == 0) {
      throw new IllegalArgumentException(
          "Cannot plan an epoch: expected rows, got 0 on all %d ranks. Check the DataFrame's filters."
              .formatted(rowsPerRank.length));
    }
    if (plan.smallest == 0 && (balance == Balance.PAD || balance == Balance.DROP)) {
      throw new IllegalArgumentException(
          ("Cannot plan an epoch with balance %s: expected rows on every rank, got %s. Use balance"
                  + " repartition, or give the DataFrame more partitions.")
              .formatted(balance.name().toLowerCase(java.util.Locale.ROOT), plan.counts()));
    }
    return plan;
  }

  /**
   * Plans the rest of an epoch that was begun in another world. Unlike {@link #of}, it may have no
   * rows left, and a rank that has none joins the others.
   */
  static EpochPlan ofRest(long[] rowsPerRank, int batchRows, Balance balance) {
    boolean anyEmpty = Arrays.stream(rowsPerRank).anyMatch(rows -> rows == 0);
    boolean needsRows = balance == Balance.PAD || balance == Balance.DROP;
    return new EpochPlan(
        rowsPerRank.clone(), batchRows, anyEmpty && needsRows ? Balance.JOIN : balance);
  }

  /** Steps of the epoch, the same on every rank. */
  public long steps() {
    return steps;
  }

  /** Ranks that take part. */
  public int worldSize() {
    return rowsPerRank.length;
  }

  /** Largest batch of one rank. */
  public int batchRows() {
    return batchRows;
  }

  /** The policy. */
  public Balance balance() {
    return balance;
  }

  /** Rows that the rank holds. */
  public long rows(int rank) {
    return rowsPerRank[rank];
  }

  /** Rows over all ranks. */
  public long totalRows() {
    return Arrays.stream(rowsPerRank).sum();
  }

  /**
   * Place, in the rank's order of the epoch, of the first row of the step's batch. Under PAD it may
   * be beyond the rank's rows: the place is then taken modulo {@link #rows}.
   */
  public long firstRow(int rank, long step) {
    long held = rowsPerRank[rank];
    long full = step * batchRows;
    return switch (balance) {
      case REPARTITION ->
          held >= steps ? Math.min(full, held - (steps - step)) : Math.min(step, held);
      case PAD -> Math.min(full, largest);
      case DROP -> Math.min(full, smallest);
      case JOIN -> Math.min(full, held);
    };
  }

  /** Rows of the rank's batch in the step; 0 means that the rank only joins the others. */
  public int batchRows(int rank, long step) {
    return (int) (firstRow(rank, step + 1) - firstRow(rank, step));
  }

  /** Rows of the rank's largest batch. */
  int largestBatch(int rank) {
    return steps == 0 ? 0 : batchRows(rank, 0);
  }

  /** Rows of all ranks' batches in the step. */
  public long globalBatchRows(long step) {
    long sum = 0;
    for (int rank = 0; rank < rowsPerRank.length; rank++) {
      sum += batchRows(rank, step);
    }
    return sum;
  }

  private String counts() {
    return rowsPerRank.length <= 16
        ? Arrays.toString(rowsPerRank)
        : "%d to %d rows".formatted(smallest, largest);
  }

  @Override
  public String toString() {
    return "%d steps of at most %d rows per rank over %s".formatted(steps, batchRows, counts());
  }
}
