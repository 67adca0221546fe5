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
 */
final class PageArrays implements ByteBufferAllocator {
  private final Set<byte[]> lent = Collections.newSetFromMap(new IdentityHashMap<>());
  private final List<byte[]> free = new ArrayList<>();

  /** An array of at least {@code size} bytes, with undefined content. */
  byte[] take(int size) {
    byte[] found = null;
    for (int i = free.size() - 1; i >= 0 && found == null; i--) {
      int length = free.get(i).length;
      if (length >= size && length / 2 <= size) {
        found = free.remove(i);
      }
    }
    byte[] array = found == null ? new byte[size] : found;
    lent.add(array);
    return array;
  }

  @Override
  public ByteBuffer allocate(int size) {
    return ByteBuffer.wrap(take(size), 0, size);
  }

  @Override
  public void release(ByteBuffer buffer) {
    giveBack(buffer);
  }

  @Override
  public boolean isDirect() {
    return false;
  }

  /** Takes back the array under a page; one that is not from here is left alone. */
  @SuppressWarnings("ByteBufferBackingArray") // whatever part of it the buffer shows
  void giveBack(ByteBuffer page) {
    byte[] array = page.array();
    if (lent.remove(array)) {
      free.add(array);
    }
  }
}
