package io.sparktrainer.data;

import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * One rank's rows, kept in direct memory and beyond the budget on local disk for all epochs. Close
 * it after the last epoch.
 *
 * <p>Before epochs can be read, all ranks have to {@link #agree} once.
 */
public final class RankData implements AutoCloseable {
  private static final int FIELDS = 4;
  private static final int TRAINING_ROWS = 0;
  private static final int VALIDATION_ROWS = 1;
  private static final int BLOCK_ROWS = 2;
  private static final int WINDOW_BLOCKS = 3;
  private static final int BLOCKS_PER_WINDOW = 64;
  private static final long MAX_BLOCK_BYTES = 1 << 20;

  private final int rank;
  private final int worldSize;
  private final RankShare training;
  private final @Nullable RankShare validation;
  private final long[] partitionRows;
  private final long blockRows;
  private final long windowBlocks;

  /** Takes the training rows of each training partition that the rank counts for all. */
  RankData(
      int rank,
      ShareLayout layout,
      boolean hasValidation,
      DataSpec spec,
      ReadPlan plan,
      MemoryBudget budget,
      ShareBuilder[] sets,
      long[] partitionRows) {
    this.rank = rank;
    this.worldSize = layout.worldSize();
    this.partitionRows = partitionRows;
    for (ShareBuilder set : sets) {
      set.seal();
    }
    this.training = new RankShare(rank, spec, plan, layout, sets[Block.TRAINING]);
    if (hasValidation) {
      DataSpec inOrder =
          spec.toBuilder()
              .order(DataSpec.Order.SEQUENTIAL)
              .balance(spec.balance() == Balance.REPARTITION ? Balance.REPARTITION : Balance.JOIN)
              .build();
      this.validation = new RankShare(rank, inOrder, plan, layout, sets[Block.VALIDATION]);
    } else {
      this.validation = null;
      sets[Block.VALIDATION].close();
    }
    long window = budget.bytes() / 2;
    long blockBytes = Math.min(MAX_BLOCK_BYTES, window / BLOCKS_PER_WINDOW);
    this.blockRows = training.isSpilled() ? Math.max(1, blockBytes / plan.recordBytes()) : 0;
    this.windowBlocks =
        training.isSpilled()
            ? Math.max(BLOCKS_PER_WINDOW, window / (blockRows * plan.recordBytes()))
            : 0;
  }

  /** The training rows. */
  public RankShare training() {
    return training;
  }

  /**
   * The validation rows, always in DataFrame order and each read exactly once; null where there are
   * none.
   */
  public @Nullable RankShare validation() {
    return validation;
  }

  /**
   * Exchanges row counts, so that all ranks plan the same steps. A collective: every rank calls it
   * once, at the same place.
   *
   * @param sum the exchange; {@link SumOverRanks#SINGLE} for one rank
   * @throws IllegalArgumentException on all ranks alike, where the rows don't allow a plan
   */
  public void agree(SumOverRanks sum) {
    long[] mine = new long[FIELDS * worldSize + partitionRows.length];
    put(mine, TRAINING_ROWS, training.rows());
    put(mine, VALIDATION_ROWS, validation == null ? 0 : validation.rows());
    put(mine, BLOCK_ROWS, blockRows);
    put(mine, WINDOW_BLOCKS, windowBlocks);
    System.arraycopy(partitionRows, 0, mine, FIELDS * worldSize, partitionRows.length);
    long[] all = sum.sum(mine.clone());
    if (all.length != mine.length || field(all, TRAINING_ROWS)[rank] != training.rows()) {
      throw new IllegalStateException(
          "Cannot plan epochs: expected a sum over %d ranks that holds this rank's %d rows (rank %d)."
              .formatted(worldSize, training.rows(), rank));
    }
    long[] partitions = Arrays.copyOfRange(all, FIELDS * worldSize, all.length);
    training.agree(
        field(all, TRAINING_ROWS),
        smallestUsed(field(all, BLOCK_ROWS)),
        smallestUsed(field(all, WINDOW_BLOCKS)),
        partitions);
    if (validation != null) {
      validation.agree(field(all, VALIDATION_ROWS), 0, 0, new long[0]);
    }
  }

  private void put(long[] vector, int field, long value) {
    vector[field * worldSize + rank] = value;
  }

  private long[] field(long[] vector, int field) {
    return Arrays.copyOfRange(vector, field * worldSize, (field + 1) * worldSize);
  }

  /** Ranks that hold all rows in memory bring 0 and follow those that don't. */
  private static long smallestUsed(long[] values) {
    return Arrays.stream(values).filter(value -> value > 0).min().orElse(0);
  }

  @Override
  public void close() {
    training.close();
    if (validation != null) {
      validation.close();
    }
  }
}
