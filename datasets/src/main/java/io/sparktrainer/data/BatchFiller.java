package io.sparktrainer.data;

/** Copies the next rows of an epoch into a batch's memory. */
final class BatchFiller {
  private final RowStore store;
  private final RowIndex index;
  private final EpochWalk walk;

  BatchFiller(RowStore store, RowIndex index, EpochWalk walk) {
    this.store = store;
    this.index = index;
    this.walk = walk;
  }

  void fill(BatchMemory memory, int rows) {
    for (int i = 0; i < rows; i++) {
      long row = index.storeRow(walk.next());
      memory.put(i, store.chunk(row), store.offset(row));
    }
  }
}
