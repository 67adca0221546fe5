package io.sparktrainer.strategy;

import java.lang.reflect.Field;
import org.bytedeco.javacpp.Pointer;

/**
 * How many native objects wait for Java to free them. {@link Pointer#totalCount()} also counts
 * those that Java has handed over to libtorch, until the next garbage collection.
 */
final class HeldObjects {
  private static final String REFERENCE = "org.bytedeco.javacpp.Pointer$DeallocatorReference";
  private static final String NATIVE = "org.bytedeco.javacpp.Pointer$NativeDeallocator";

  private HeldObjects() {}

  /** Called while no other thread makes or frees native objects. */
  static long count() {
    try {
      Class<?> type = Class.forName(NATIVE);
      Field next = field(Class.forName(REFERENCE), "next");
      Field owner = field(type, "ownerAddress");
      Object reference = field(Class.forName(REFERENCE), "head").get(null);
      long count = 0;
      while (reference != null) {
        boolean isGone = type.isInstance(reference) && owner.getLong(reference) == 0;
        count += isGone ? 0 : 1;
        reference = next.get(reference);
      }
      return count;
    } catch (ReflectiveOperationException e) {
      throw new LinkageError("This version of JavaCPP keeps its objects in another way.", e);
    }
  }

  private static Field field(Class<?> type, String name) throws NoSuchFieldException {
    Field field = type.getDeclaredField(name);
    field.setAccessible(true);
    return field;
  }
}
