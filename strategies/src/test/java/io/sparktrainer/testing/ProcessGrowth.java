package io.sparktrainer.testing;

import io.sparktrainer.torch.ProcessMemory;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;

/** By how much this process has grown. Linux only. */
public final class ProcessGrowth {
  /**
   * What a process needs in its environment so that its growth is that of tensors: a Java heap of
   * 512 MiB that is resident from the start and stays so, and a native heap that unmaps every piece
   * of 1 MiB when it is freed, where glibc by default keeps up to a tenth in holes.
   */
  public static final Map<String, String> ENVIRONMENT =
      Map.of(
          "JAVA_TOOL_OPTIONS",
          "-Xms512m -XX:+AlwaysPreTouch -XX:TieredStopAtLevel=1 -XX:CompileThresholdScaling=20",
          "MALLOC_MMAP_THRESHOLD_",
          "1048576");

  private final long anonymousBefore;
  private final long residentBefore;

  private ProcessGrowth(long anonymousBefore, long residentBefore) {
    this.anonymousBefore = anonymousBefore;
    this.residentBefore = residentBefore;
  }

  /** Starts to count, in a process with {@link #ENVIRONMENT}. */
  public static ProcessGrowth start() {
    ProcessMemory.trimNativeHeap();
    return new ProcessGrowth(ProcessMemory.anonymousBytes(), Memory.statusBytes("VmRSS"));
  }

  /** Bytes that are held now. */
  public long held() {
    ProcessMemory.trimNativeHeap();
    return ProcessMemory.anonymousBytes() - anonymousBefore;
  }

  /** Lets {@link #peak()} begin anew from what is held now. */
  public void resetPeak() {
    ProcessMemory.trimNativeHeap();
    try {
      Files.writeString(Path.of("/proc/self/clear_refs"), "5");
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Most bytes that were resident at a time. */
  public long peak() {
    return Memory.statusBytes("VmHWM") - residentBefore;
  }
}
