package io.sparktrainer.data;

import java.io.Serializable;
import java.util.Iterator;
import java.util.Map;
import java.util.TreeMap;

/**
 * Reads a rank's partition in its task. Made by {@link PreparedData#reader()} on the driver, and
 * serializable, so that a task can carry it.
 */
public final class RankReader implements Serializable {
  private static final long serialVersionUID = 1L;

  private final DataSpec spec;
  private final ReadPlan plan;
  private final ShareLayout layout;
  private final boolean hasValidation;

  RankReader(DataSpec spec, ReadPlan plan, ShareLayout layout, boolean hasValidation) {
    this.spec = spec;
    this.plan = plan;
    this.layout = layout;
    this.hasValidation = hasValidation;
  }

  /** The tensors that batches will hold. */
  public TensorSchema schema() {
    return plan.schema();
  }

  /** Ranks. */
  public int worldSize() {
    return layout.worldSize();
  }

  /**
   * Reads all rows of the rank into direct memory.
   *
   * @param rank this rank, which is the partition's index in {@link PreparedData#rdd()}
   * @param partition the partition's iterator, read to its end
   * @return the rows, to be closed by the caller
   * @throws IllegalArgumentException naming column and row where a value can't be read
   */
  public RankData read(int rank, Iterator<byte[]> partition) {
    int worldSize = layout.worldSize();
    if (rank < 0 || rank >= worldSize) {
      throw new IllegalArgumentException(
          "Cannot read a partition: expected a rank of 0 to %d, got %d."
              .formatted(worldSize - 1, rank));
    }
    ShareBuilder[] sets = new ShareBuilder[Block.SETS];
    MemoryBudget budget = MemoryBudget.of(spec, worldSize);
    for (int set = 0; set < sets.length; set++) {
      sets[set] = new ShareBuilder(new RowStore(plan.recordBytes(), budget, spec.spillDirectory()));
    }
    try {
      Map<Integer, byte[]> ends = new TreeMap<>();
      while (partition.hasNext()) {
        byte[] block = partition.next();
        if (Block.isEnd(block)) {
          ends.put(Block.partition(block), block);
        } else {
          sets[Block.set(block)].add(block);
        }
      }
      int expected = layout.partitionsOf(rank);
      if (ends.size() != expected) {
        throw new IllegalStateException(
            "Cannot read the data: expected the ends of %d source partitions, got %d (rank %d of %d)."
                .formatted(expected, ends.size(), rank, worldSize));
      }
      dealLeftOver(rank, ends, sets);
      return new RankData(
          rank, layout, hasValidation, spec, plan, budget, sets, counts(rank, ends));
    } catch (Throwable e) {
      for (ShareBuilder set : sets) {
        set.close();
      }
      throw e;
    }
  }

  /**
   * Training rows by partition, summed up over the ranks later: where all ranks see all partitions,
   * the first one counts them.
   */
  private long[] counts(int rank, Map<Integer, byte[]> ends) {
    long[] counts = new long[layout.trainingPartitions()];
    boolean countsAll = layout instanceof ShareLayout.Grouped || rank == 0;
    ends.forEach(
        (partition, end) -> {
          if (countsAll && partition < counts.length) {
            counts[partition] = Block.count(end, Block.TRAINING);
          }
        });
    return counts;
  }

  /** The left-over rows of all source partitions in order, one to each rank in turn. */
  private void dealLeftOver(int rank, Map<Integer, byte[]> ends, ShareBuilder[] sets) {
    long[] dealt = new long[Block.SETS];
    for (byte[] end : ends.values()) {
      int at = Block.HEADER_BYTES;
      for (int set = 0; set < Block.SETS; set++) {
        int rest = Block.rest(end, set);
        for (int i = 0; i < rest; i++) {
          if (dealt[set]++ % layout.worldSize() == rank) {
            sets[set].addLast(Block.partition(end), end, at);
          }
          at += plan.recordBytes();
        }
      }
    }
  }
}
