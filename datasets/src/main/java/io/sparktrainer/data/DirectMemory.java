package io.sparktrainer.data;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** Direct buffers in native order that are given back at once, not when the collector comes by. */
final class DirectMemory {
  private static final MethodHandle CLEANER = cleaner();

  private DirectMemory() {}

  static ByteBuffer allocate(int bytes) {
    return ByteBuffer.allocateDirect(bytes).order(ByteOrder.nativeOrder());
  }

  /** Frees or unmaps a buffer; neither it nor a view of it may be touched afterwards. */
  static void free(ByteBuffer buffer) {
    try {
      CLEANER.invoke(buffer);
    } catch (Throwable e) {
      throw new IllegalStateException("Cannot free a direct buffer.", e);
    }
  }

  // sun.misc.Unsafe is the supported way on JDK 17 to free a direct buffer; javac warns about it
  // without a way to say that it is meant, so it is reached by name.
  private static MethodHandle cleaner() {
    try {
      Class<?> unsafe = Class.forName("sun.misc.Unsafe");
      Field instance = unsafe.getDeclaredField("theUnsafe");
      instance.setAccessible(true);
      return MethodHandles.lookup()
          .findVirtual(unsafe, "invokeCleaner", MethodType.methodType(void.class, ByteBuffer.class))
          .bindTo(instance.get(null));
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }
}
