package io.sparktrainer.data;

/**
 * The order in which a rank's rows are read in one epoch: a pure function of its parameters that
 * takes no memory.
 *
 * <p>Rows in memory are shuffled uniformly. Rows that were spilled to disk are shuffled on two
 * levels, so that disk is read in pieces: blocks of neighbouring rows are shuffled uniformly, then
 * rows are shuffled uniformly within windows of {@code windowBlocks} successive blocks. Any row may
 * come anywhere in the epoch; the loss against a uniform shuffle is that rows of one block come
 * within one window of each other.
 */
final class EpochOrder {
  /**
   * How rows are ordered, the same on all ranks.
   *
   * @param shuffled whether they are shuffled at all
   * @param blockRows rows per block, 0 for a uniform shuffle
   * @param windowBlocks blocks per window, 0 for a uniform shuffle
   */
  record Rule(boolean shuffled, long blockRows, long windowBlocks) {
    static final Rule SEQUENTIAL = new Rule(false, 0, 0);
    static final Rule UNIFORM = new Rule(true, 0, 0);
  }

  private static final long BLOCKS = 1;
  private static final long WINDOWS = 2;

  private final long rows;
  private final Rule rule;
  private final long seed;
  private final boolean twoLevels;
  private final Permutation top;
  private final long blocks;
  private final long missing;
  private final long shortPlace;
  private long window = -1;
  private Permutation inWindow;

  EpochOrder(Rule rule, long rows, long seed, int epoch, int rank) {
    this.rows = rows;
    this.rule = rule;
    this.seed = Mix.mix(seed, epoch, rank);
    this.twoLevels =
        rule.shuffled() && rule.blockRows() > 0 && rule.blockRows() * rule.windowBlocks() < rows;
    if (twoLevels) {
      long size = rule.blockRows();
      this.blocks = (rows + size - 1) / size;
      this.missing = blocks * size - rows;
      this.top = new Permutation(blocks, Mix.mix(this.seed, BLOCKS));
      this.shortPlace = top.placeOf(blocks - 1);
    } else {
      this.blocks = 0;
      this.missing = 0;
      this.shortPlace = 0;
      this.top = new Permutation(rows, this.seed);
    }
    this.inWindow = top;
  }

  /** The row of the share that is read at a place of the epoch. */
  long at(long place) {
    if (!rule.shuffled()) {
      return place;
    }
    return twoLevels ? twoLevelsAt(place) : top.at(place);
  }

  private long twoLevelsAt(long place) {
    long size = rule.blockRows();
    long perWindow = rule.windowBlocks() * size;
    long w = place / perWindow;
    if (start(w + 1) <= place) {
      w++;
    }
    long start = start(w);
    if (w != window) {
      window = w;
      inWindow = new Permutation(start(w + 1) - start, Mix.mix(seed, WINDOWS, w));
    }
    long inside = inWindow.at(place - start);
    long shortStart = (shortPlace - w * rule.windowBlocks()) * size;
    if (shortStart >= 0 && inside >= shortStart + size - missing) {
      inside += missing;
    }
    return top.at(w * rule.windowBlocks() + inside / size) * size + inside % size;
  }

  /** Place of a window's first row; the last block of the share may be short. */
  private long start(long w) {
    long firstBlock = Math.min(w * rule.windowBlocks(), blocks);
    return firstBlock * rule.blockRows() - (shortPlace < firstBlock ? missing : 0);
  }

  long rows() {
    return rows;
  }
}
