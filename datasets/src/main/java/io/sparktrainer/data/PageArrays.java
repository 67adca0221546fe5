package io.sparktrainer.data;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Set;
import org.apache.parquet.bytes.ByteBufferAllocator;

/**
 * Arrays that one task reads row groups into, and decompresses pages into, over and over: new ones,
 * which are large, cost their clearing and the garbage collector's attention.
 *
 * <p>Pages that are not compressed lie in the arrays that were read into, many in one, so that the
 * two kinds come back by ways of their own.
 */
final class PageArrays implements ByteBufferAllocator {
  private final Set<byte[]> pages = Collections.newSetFromMap(new IdentityHashMap<>());
  private final Set<byte[]> readInto = Collections.newSetFromMap(new IdentityHashMap<>());
  private final List<byte[]> free = new ArrayList<>();

  /** An array of at least {@code size} bytes for a page, with undefined content. */
  byte[] take(int size) {
    byte[] page = find(size);
    pages.add(page);
    return page;
  }

  private byte[] find(int size) {
    for (int i = free.size() - 1; i >= 0; i--) {
      int length = free.get(i).length;
      if (length >= size && length / 2 <= size) {
        return free.remove(i);
      }
    }
    return new byte[size];
  }

  /** Takes back the array of a page; one that is not from {@link #take} is left alone. */
  @SuppressWarnings("ByteBufferBackingArray") // whatever part of it the buffer shows
  void giveBack(ByteBuffer page) {
    if (pages.remove(page.array())) {
      free.add(page.array());
    }
  }

  /** A buffer to read into. */
  @Override
  public ByteBuffer allocate(int size) {
    byte[] array = find(size);
    readInto.add(array);
    return ByteBuffer.wrap(array, 0, size);
  }

  @Override
  @SuppressWarnings("ByteBufferBackingArray") // whatever part of it the buffer shows
  public void release(ByteBuffer buffer) {
    if (readInto.remove(buffer.array())) {
      free.add(buffer.array());
    }
  }

  @Override
  public boolean isDirect() {
    return false;
  }
}
