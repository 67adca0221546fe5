package io.sparktrainer.torch;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import javax.management.JMException;
import javax.management.ObjectName;

/** Memory of this process as the operating system counts it. Linux only. */
public final class ProcessMemory {
  private static final Path ROLLUP = Path.of("/proc/self/smaps_rollup");

  private ProcessMemory() {}

  /** Whether {@link #anonymousBytes()} works here. */
  public static boolean isMeasurable() {
    return Files.isReadable(ROLLUP);
  }

  /**
   * Bytes resident that no file backs: tensors, the Java heap, stacks. Exact, unlike the counters
   * of {@code /proc/self/status}, which each thread updates only now and then.
   *
   * @throws UncheckedIOException if the system does not tell
   */
  public static long anonymousBytes() {
    try {
      for (String line : Files.readAllLines(ROLLUP)) {
        if (line.startsWith("Anonymous:")) {
          return Long.parseLong(line.replaceAll("\\D", "")) * 1024;
        }
      }
    } catch (IOException e) {
      throw new UncheckedIOException("Cannot read " + ROLLUP + ".", e);
    }
    throw new IllegalStateException(
        "Cannot measure memory: expected a line \"Anonymous:\" in " + ROLLUP + ", got none.");
  }

  /**
   * Gives free memory of the native heap back to the system, so that what is allocated next is seen
   * to grow; does nothing on a JVM that cannot.
   */
  public static void trimNativeHeap() {
    try {
      ManagementFactory.getPlatformMBeanServer()
          .invoke(
              new ObjectName("com.sun.management:type=DiagnosticCommand"),
              "systemTrimNativeHeap",
              new Object[0],
              new String[0]);
    } catch (JMException e) {
      // JVMs before 17.0.9, and those without glibc, have no such command.
      org.slf4j.LoggerFactory.getLogger(ProcessMemory.class)
          .debug("The native heap cannot be trimmed here", e);
    }
  }
}
