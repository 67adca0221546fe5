package io.sparktrainer.data;

/** Gathers the rows of one set of a rank as their blocks arrive. */
final class ShareBuilder implements AutoCloseable {
  final RowStore store;
  final RowIndex index = new RowIndex();

  ShareBuilder(RowStore store) {
    this.store = store;
  }

  void add(byte[] block) {
    index.add(Block.partition(block), Block.sequence(block), store.rows(), Block.rows(block));
    store.append(block, Block.HEADER_BYTES, Block.rows(block));
  }

  /** Adds a record behind all others of its source partition. */
  void addLast(int partition, byte[] from, int offset) {
    index.add(partition, Long.MAX_VALUE, store.rows(), 1);
    store.append(from, offset, 1);
  }

  /** Ends it: rows can be read from now on. */
  void seal() {
    index.seal();
    store.seal();
  }

  @Override
  public void close() {
    store.close();
  }
}
