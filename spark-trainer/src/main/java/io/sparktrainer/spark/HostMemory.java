package io.sparktrainer.spark;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.OptionalLong;

/** Memory that processes on this machine, or in this container, can still get. */
final class HostMemory {
  private static final Path MEMINFO = Path.of("/proc/meminfo");
  private static final Path CGROUP_LIMIT = Path.of("/sys/fs/cgroup/memory.max");

  private HostMemory() {}

  /** Bytes; without limit where the system does not tell. */
  static long availableBytes() {
    // A container's limit, not what is left of it: file caches count as used there, and give way.
    return Math.min(
        free(read(MEMINFO)).orElse(Long.MAX_VALUE),
        number(read(CGROUP_LIMIT)).orElse(Long.MAX_VALUE));
  }

  static OptionalLong free(String meminfo) {
    return meminfo
        .lines()
        .filter(line -> line.startsWith("MemAvailable:"))
        .mapToLong(line -> Long.parseLong(line.replaceAll("\\D", "")) * 1024)
        .findFirst();
  }

  private static OptionalLong number(String text) {
    String stripped = text.strip();
    return stripped.matches("\\d{1,18}")
        ? OptionalLong.of(Long.parseLong(stripped))
        : OptionalLong.empty();
  }

  private static String read(Path file) {
    try {
      return Files.readString(file);
    } catch (IOException e) {
      return "";
    }
  }
}
