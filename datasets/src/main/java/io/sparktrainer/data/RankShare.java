package io.sparktrainer.data;

import org.jspecify.annotations.Nullable;

/** One rank's rows of one set (training or validation). Not thread-safe. */
public final class RankShare implements AutoCloseable {
  private final int rank;
  private final DataSpec spec;
  private final ReadPlan readPlan;
  private final RowStore store;
  private final RowIndex index;
  private @Nullable EpochPlan plan;
  private boolean closed;

  RankShare(int rank, DataSpec spec, ReadPlan readPlan, ShareBuilder rows) {
    this.rank = rank;
    this.spec = spec;
    this.readPlan = readPlan;
    this.store = rows.store;
    this.index = rows.index;
    index.seal();
  }

  /** Rows that this rank holds. */
  public long rows() {
    return index.rows();
  }

  /** The tensors of its batches. */
  public TensorSchema schema() {
    return readPlan.schema();
  }

  void plan(long[] rowsPerRank) {
    this.plan = EpochPlan.of(rowsPerRank, spec.batchRows(), spec.balance());
  }

  /**
   * Steps and batches of an epoch.
   *
   * @throws IllegalStateException before {@link RankData#agree}
   */
  public EpochPlan plan() {
    if (plan == null) {
      throw new IllegalStateException(
          "Cannot plan an epoch: expected that all ranks had agreed on their rows. Call RankData.agree first.");
    }
    return plan;
  }

  /**
   * Reads an epoch from its start. One reader at a time may be open.
   *
   * @param epoch number of the epoch, from 0; with the seed it fixes the order
   * @throws IllegalStateException before {@link RankData#agree} or after {@link #close}
   */
  public BatchReader epoch(int epoch) {
    if (closed) {
      throw new IllegalStateException(
          "Cannot read epoch %d: the share is closed.".formatted(epoch));
    }
    Permutation order =
        spec.order() == DataSpec.Order.SHUFFLED && rows() > 1
            ? new Permutation(rows(), Mix.mix(spec.seed(), epoch, rank))
            : null;
    return new BatchReader(rank, plan(), readPlan, store, index, order);
  }

  @Override
  public void close() {
    if (!closed) {
      closed = true;
      store.close();
    }
  }
}
