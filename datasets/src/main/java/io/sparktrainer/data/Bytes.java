package io.sparktrainer.data;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;

/** Unaligned access to byte arrays in native byte order, without wrapping them. */
final class Bytes {
  private static final VarHandle SHORT =
      MethodHandles.byteArrayViewVarHandle(short[].class, ByteOrder.nativeOrder());
  private static final VarHandle INT =
      MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.nativeOrder());
  private static final VarHandle LONG =
      MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.nativeOrder());
  private static final VarHandle FLOAT =
      MethodHandles.byteArrayViewVarHandle(float[].class, ByteOrder.nativeOrder());
  private static final VarHandle DOUBLE =
      MethodHandles.byteArrayViewVarHandle(double[].class, ByteOrder.nativeOrder());

  private Bytes() {}

  static void putShort(byte[] bytes, int offset, short value) {
    SHORT.set(bytes, offset, value);
  }

  static void putInt(byte[] bytes, int offset, int value) {
    INT.set(bytes, offset, value);
  }

  static int getInt(byte[] bytes, int offset) {
    return (int) INT.get(bytes, offset);
  }

  static void putLong(byte[] bytes, int offset, long value) {
    LONG.set(bytes, offset, value);
  }

  static long getLong(byte[] bytes, int offset) {
    return (long) LONG.get(bytes, offset);
  }

  static void putFloat(byte[] bytes, int offset, float value) {
    FLOAT.set(bytes, offset, value);
  }

  static float getFloat(byte[] bytes, int offset) {
    return (float) FLOAT.get(bytes, offset);
  }

  static void putDouble(byte[] bytes, int offset, double value) {
    DOUBLE.set(bytes, offset, value);
  }

  static double getDouble(byte[] bytes, int offset) {
    return (double) DOUBLE.get(bytes, offset);
  }
}
