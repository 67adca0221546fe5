package io.sparktrainer.data;

import java.util.Iterator;
import java.util.NoSuchElementException;
import org.jspecify.annotations.Nullable;

/**
 * The batches of one epoch of one rank: exactly {@link #steps()} of them, whatever the rank's rows.
 * A batch's memory is valid until the next call of {@link #next()} or {@link #close()}.
 */
public final class BatchReader implements Iterator<Batch>, AutoCloseable {
  private final int rank;
  private final EpochPlan plan;
  private final RowStore store;
  private final RowIndex index;
  private final @Nullable Permutation order;
  private final BatchMemory memory;
  private long step;
  private boolean closed;

  BatchReader(
      int rank,
      EpochPlan plan,
      ReadPlan readPlan,
      RowStore store,
      RowIndex index,
      @Nullable Permutation order) {
    this.rank = rank;
    this.plan = plan;
    this.store = store;
    this.index = index;
    this.order = order;
    this.memory = new BatchMemory(readPlan.schema(), plan.batchRows());
  }

  /** Batches of the epoch. */
  public long steps() {
    return plan.steps();
  }

  @Override
  public boolean hasNext() {
    return !closed && step < plan.steps();
  }

  @Override
  public Batch next() {
    if (!hasNext()) {
      throw new NoSuchElementException(
          "Cannot read step %d: the epoch has %d steps%s."
              .formatted(step, plan.steps(), closed ? " and the reader is closed" : ""));
    }
    int rows = plan.batchRows(rank, step);
    long first = plan.firstRow(rank, step);
    long held = plan.rows(rank);
    for (int i = 0; i < rows; i++) {
      long place = (first + i) % held;
      long row = index.storeRow(order == null ? place : order.at(place));
      memory.put(i, store.chunk(row), store.offset(row));
    }
    return memory.batch(step++, rows);
  }

  @Override
  public void close() {
    if (!closed) {
      closed = true;
      memory.close();
    }
  }
}
