package io.sparktrainer.testing;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** The memory of this process as the operating system sees it. */
public final class Memory {
  private Memory() {}

  /** Resident bytes of this process, after a collection of unreachable Java objects. */
  public static long residentBytes() {
    System.gc();
    return statusBytes("VmRSS");
  }

  /** What {@code /proc/self/status} has under {@code key}, such as {@code VmHWM}, in bytes. */
  public static long statusBytes(String key) {
    try (var lines = Files.lines(Path.of("/proc/self/status"))) {
      return lines
              .filter(line -> line.startsWith(key + ":"))
              .mapToLong(line -> Long.parseLong(line.replaceAll("\\D", "")))
              .findFirst()
              .orElseThrow()
          * 1024;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /**
   * By how many bytes the process grows over {@code times} runs of {@code work}, after a fifth as
   * many runs to warm up.
   */
  public static long growth(int times, Runnable work) {
    repeat(times / 5, work);
    long before = residentBytes();
    repeat(times, work);
    return residentBytes() - before;
  }

  private static void repeat(int times, Runnable work) {
    for (int i = 0; i < times; i++) {
      work.run();
    }
  }
}
