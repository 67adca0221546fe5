package io.sparktrainer.data;

import org.jspecify.annotations.Nullable;

/**
 * One rank's rows, kept in direct memory for all epochs. Close it after the last epoch.
 *
 * <p>Before epochs can be read, all ranks have to {@link #agree} once.
 */
public final class RankData implements AutoCloseable {
  private final int rank;
  private final int worldSize;
  private final RankShare training;
  private final @Nullable RankShare validation;

  RankData(
      int rank,
      ShareLayout layout,
      boolean hasValidation,
      DataSpec spec,
      ReadPlan plan,
      ShareBuilder[] sets) {
    this.rank = rank;
    this.worldSize = layout.worldSize();
    this.training = new RankShare(rank, spec, plan, sets[Block.TRAINING]);
    if (!hasValidation) {
      this.validation = null;
      sets[Block.VALIDATION].close();
    } else {
      DataSpec inOrder =
          spec.toBuilder()
              .order(DataSpec.Order.SEQUENTIAL)
              .balance(spec.balance() == Balance.REPARTITION ? Balance.REPARTITION : Balance.JOIN)
              .build();
      this.validation = new RankShare(rank, inOrder, plan, sets[Block.VALIDATION]);
    }
  }

  /** The training rows. */
  public RankShare training() {
    return training;
  }

  /**
   * The validation rows, always in DataFrame order and each read exactly once; null where the spec
   * asks for none.
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
    long[] mine = new long[Block.SETS * worldSize];
    mine[rank] = training.rows();
    mine[worldSize + rank] = validation == null ? 0 : validation.rows();
    long[] all = sum.sum(mine.clone());
    if (all.length != mine.length || all[rank] != mine[rank]) {
      throw new IllegalStateException(
          "Cannot plan epochs: expected the sum over %d ranks, got a vector that doesn't hold this rank's rows (rank %d)."
              .formatted(worldSize, rank));
    }
    training.plan(java.util.Arrays.copyOf(all, worldSize));
    if (validation != null) {
      validation.plan(java.util.Arrays.copyOfRange(all, worldSize, 2 * worldSize));
    }
  }

  @Override
  public void close() {
    training.close();
    if (validation != null) {
      validation.close();
    }
  }
}
