package io.sparktrainer.testing;

import io.sparktrainer.torch.DType;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.bytedeco.pytorch.Tensor;

/** Which pages of this process are resident, by {@code /proc/self/pagemap}. Linux only. */
public final class PageMap {
  private static final int PAGE = 4096;
  private static final int ENTRY = 8;

  private PageMap() {}

  /** Bytes of the resident pages that a contiguous CPU tensor's elements lie on. */
  public static long residentBytes(Tensor tensor) {
    long bytes = tensor.numel() * DType.of(tensor).bytes();
    if (bytes == 0) {
      return 0;
    }
    long start = tensor.data_ptr().address();
    long first = start / PAGE;
    int count = Math.toIntExact((start + bytes - 1) / PAGE - first + 1);
    byte[] entries = new byte[count * ENTRY];
    try (RandomAccessFile file = new RandomAccessFile("/proc/self/pagemap", "r")) {
      file.seek(first * ENTRY);
      file.readFully(entries);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    ByteBuffer pages = ByteBuffer.wrap(entries).order(ByteOrder.nativeOrder());
    long resident = 0;
    while (pages.hasRemaining()) {
      // Bit 63: in memory, not swapped out.
      resident += pages.getLong() < 0 ? PAGE : 0;
    }
    return resident;
  }
}
