package io.sparktrainer.data;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import org.jspecify.annotations.Nullable;

/**
 * The batches of one epoch of one rank: exactly {@link #steps()} of them, whatever the rank's rows.
 * While one is in use, a thread of the reader makes the next. A batch's memory is valid until the
 * next call of {@link #next()} or {@link #close()}.
 */
public final class BatchReader implements Iterator<Batch>, AutoCloseable {
  private static final int BATCHES_IN_FLIGHT = 3;

  /** A batch that is ready, or why there is none. */
  private record Made(@Nullable BatchMemory memory, int rows, @Nullable Throwable failure) {}

  private final EpochPlan plan;
  private final DataPosition start;
  private final DataPosition.Stretch world;
  private final long firstStep;
  private final List<BatchMemory> memories = new ArrayList<>();
  private final BlockingQueue<BatchMemory> free = new ArrayBlockingQueue<>(BATCHES_IN_FLIGHT);
  private final BlockingQueue<Made> made = new ArrayBlockingQueue<>(BATCHES_IN_FLIGHT + 1);
  private final Thread maker;
  private @Nullable BatchMemory inUse;
  private long step;
  private boolean closed;

  BatchReader(
      int rank,
      EpochPlan plan,
      TensorSchema schema,
      BatchFiller filler,
      DataPosition start,
      DataPosition.Stretch world) {
    this.plan = plan;
    this.start = start;
    this.world = world;
    this.firstStep = world.steps();
    this.step = firstStep;
    long most = Math.min(plan.batchRows(), Math.max(1, plan.largestBatch(rank)));
    for (int i = 0; i < BATCHES_IN_FLIGHT; i++) {
      BatchMemory memory = new BatchMemory(schema, (int) most);
      memories.add(memory);
      free.add(memory);
    }
    this.maker = new Thread(() -> make(rank, filler), "batches-of-rank-" + rank);
    maker.setDaemon(true);
    maker.start();
  }

  private void make(int rank, BatchFiller filler) {
    try {
      for (long next = firstStep; next < plan.steps(); next++) {
        BatchMemory memory = free.take();
        int rows = plan.batchRows(rank, next);
        filler.fill(memory, rows);
        made.put(new Made(memory, rows, null));
      }
    } catch (InterruptedException e) {
      // closed before the end
      Thread.currentThread().interrupt();
    } catch (Throwable e) {
      made.add(new Made(null, 0, e));
    }
  }

  /** Batches of the epoch, or of its rest where another world began it. */
  public long steps() {
    return plan.steps();
  }

  /** Batches that this reader still has. */
  public long remainingSteps() {
    return closed ? 0 : Math.max(0, plan.steps() - step);
  }

  /** The plan that it follows. */
  public EpochPlan plan() {
    return plan;
  }

  /**
   * The place behind the last batch that {@link #next()} gave: what a checkpoint taken after that
   * step has to hold. The same on all ranks after the same step.
   */
  public DataPosition position() {
    List<DataPosition.Stretch> stretches = new ArrayList<>(start.stretches());
    stretches.add(world.withSteps(step));
    return new DataPosition(start.epoch(), start.seed(), start.partitionRows(), stretches);
  }

  @Override
  public boolean hasNext() {
    return !closed && step < plan.steps();
  }

  /**
   * The next batch.
   *
   * @throws NoSuchElementException after the last, or after {@link #close}
   * @throws IllegalStateException where the thread is interrupted, as a killed task's is
   */
  @Override
  public Batch next() {
    if (!hasNext()) {
      throw new NoSuchElementException(
          "Cannot read step %d: the epoch has %d steps%s."
              .formatted(step, plan.steps(), closed ? " and the reader is closed" : ""));
    }
    Made next;
    try {
      if (inUse != null) {
        free.put(inUse);
        inUse = null;
      }
      next = made.take();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException(
          "Cannot read step %d: interrupted while waiting for the batch.".formatted(step), e);
    }
    BatchMemory memory = next.memory();
    if (memory == null) {
      throw new IllegalStateException(
          "Cannot read step %d: %s".formatted(step, next.failure()), next.failure());
    }
    inUse = memory;
    return memory.batch(step++, next.rows());
  }

  @Override
  public void close() {
    if (closed) {
      return;
    }
    closed = true;
    maker.interrupt();
    // the memory may only go when nobody writes into it, also where this thread is interrupted
    boolean interrupted = false;
    while (maker.isAlive()) {
      try {
        maker.join();
      } catch (InterruptedException e) {
        interrupted = true;
      }
    }
    memories.forEach(BatchMemory::close);
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }
}
