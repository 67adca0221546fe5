package io.sparktrainer.data;

import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** One rank's rows of one set (training or validation). Not thread-safe. */
public final class RankShare implements AutoCloseable {
  private final int rank;
  private final DataSpec spec;
  private final ReadPlan readPlan;
  private final ShareLayout layout;
  private final RowStore store;
  private final RowIndex index;
  private @Nullable Agreement agreement;
  private boolean closed;

  RankShare(int rank, DataSpec spec, ReadPlan readPlan, ShareLayout layout, ShareBuilder rows) {
    this.rank = rank;
    this.spec = spec;
    this.readPlan = readPlan;
    this.layout = layout;
    this.store = rows.store;
    this.index = rows.index;
  }

  /**
   * What all ranks know of each other.
   *
   * @param plan of a whole epoch
   * @param world this world, with the shuffle that all its ranks use
   * @param partitionRows rows of every source partition
   */
  record Agreement(EpochPlan plan, DataPosition.Stretch world, List<Long> partitionRows) {}

  /** Rows that this rank holds. */
  public long rows() {
    return index.rows();
  }

  /** The tensors of its batches. */
  public TensorSchema schema() {
    return readPlan.schema();
  }

  /** Whether rows beyond the memory budget lie on local disk; they are shuffled on two levels. */
  public boolean isSpilled() {
    return store.isSpilled();
  }

  void agree(long[] rowsPerRank, long blockRows, long windowBlocks, long[] partitionRows) {
    DataPosition.Stretch world =
        new DataPosition.Stretch(
            rowsPerRank.length,
            spec.batchRows(),
            spec.balance(),
            spec.order(),
            blockRows,
            windowBlocks,
            0);
    this.agreement =
        new Agreement(
            EpochPlan.of(rowsPerRank, spec.batchRows(), spec.balance()),
            world,
            Arrays.stream(partitionRows).boxed().toList());
  }

  private Agreement agreement() {
    if (closed) {
      throw new IllegalStateException("Cannot read an epoch: the share is closed.");
    }
    if (agreement == null) {
      throw new IllegalStateException(
          "Cannot plan an epoch: expected that all ranks had agreed on their rows. Call"
              + " RankData.agree first.");
    }
    return agreement;
  }

  /**
   * Steps and batches of a whole epoch.
   *
   * @throws IllegalStateException before {@link RankData#agree}
   */
  public EpochPlan plan() {
    return agreement().plan();
  }

  /**
   * Reads an epoch from its start. Close the reader before the next one is opened.
   *
   * @param epoch number of the epoch, from 0; with seed, rank and world size it fixes the order
   * @throws IllegalStateException before {@link RankData#agree} or after {@link #close}
   */
  public BatchReader epoch(int epoch) {
    Agreement known = agreement();
    DataPosition start = new DataPosition(epoch, spec.seed(), known.partitionRows(), List.of());
    return reader(known.plan(), start, known.world(), null);
  }

  /**
   * Reads the rest of an epoch: every row that is not yet read in it, whatever the world that read
   * the others. In the world that saved the position, the batches are those it would have read
   * next. In another world, rows come in that world's own order; a rank with fewer rows left than
   * steps gets empty batches at the end.
   *
   * @param position from {@link BatchReader#position}, the same on all ranks
   * @throws IllegalArgumentException where the DataFrame's partitions are not those of the position
   * @throws IllegalStateException before {@link RankData#agree} or after {@link #close}
   */
  public BatchReader resume(DataPosition position) {
    Agreement known = agreement();
    if (!position.partitionRows().equals(known.partitionRows())) {
      throw new IllegalArgumentException(
          ("Cannot resume %s: expected the DataFrame's partitions to hold %s rows, got %s. Resume"
                  + " from the same data, or start the epoch anew.")
              .formatted(position, brief(position.partitionRows()), brief(known.partitionRows())));
    }
    if (position.seed() != spec.seed()) {
      throw new IllegalArgumentException(
          "Cannot resume %s: expected seed %d, got %d."
              .formatted(position, position.seed(), spec.seed()));
    }
    int stretches = position.stretches().size();
    DataPosition.Stretch last = stretches == 0 ? null : position.stretches().get(stretches - 1);
    boolean goesOn = last != null && last.sameWorld(known.world());
    int before = goesOn ? stretches - 1 : stretches;
    DataPosition start =
        new DataPosition(
            position.epoch(),
            position.seed(),
            position.partitionRows(),
            position.stretches().subList(0, before));
    DataPosition.Stretch world = goesOn && last != null ? last : known.world();
    if (before == 0) {
      return reader(known.plan(), start, world, null);
    }
    ReadRows read = ReadRows.after(position, before, this::layoutOf);
    long[] counts = known.partitionRows().stream().mapToLong(Long::longValue).toArray();
    EpochPlan rest = read.restOf(new ShareMap(layout, counts), known.world());
    return reader(rest, start, world, read);
  }

  private BatchReader reader(
      EpochPlan plan, DataPosition start, DataPosition.Stretch world, @Nullable ReadRows read) {
    EpochOrder order = new EpochOrder(world.rule(), rows(), start.seed(), start.epoch(), rank);
    long[] counts = start.partitionRows().stream().mapToLong(Long::longValue).toArray();
    EpochWalk walk = new EpochWalk(order, read, new ShareMap(layout, counts), rank);
    walk.skip(plan.firstRow(rank, world.steps()));
    BatchFiller filler = new BatchFiller(store, index, walk);
    return new BatchReader(rank, plan, readPlan.schema(), filler, start, world);
  }

  private ShareLayout layoutOf(DataPosition.Stretch stretch) {
    int partitions = layout.trainingPartitions();
    return stretch.balance() == Balance.REPARTITION
        ? new ShareLayout.Dealt(stretch.worldSize(), partitions, 0)
        : new ShareLayout.Grouped(stretch.worldSize(), partitions, 0);
  }

  private static String brief(List<Long> rows) {
    return rows.size() <= 16
        ? rows.toString()
        : "%d in %d partitions".formatted(rows.stream().mapToLong(r -> r).sum(), rows.size());
  }

  @Override
  public void close() {
    if (!closed) {
      closed = true;
      store.close();
    }
  }
}
