package io.sparktrainer.comm;

import io.sparktrainer.torch.CudaDevices;
import io.sparktrainer.torch.CudaLibraries;
import io.sparktrainer.torch.NativeLibraries;
import java.util.Map;
import java.util.Objects;
import org.bytedeco.cuda.global.nccl;
import org.bytedeco.javacpp.BytePointer;
import org.bytedeco.pytorch.StringOptional;
import org.bytedeco.pytorch.global.torch;
import org.jspecify.annotations.Nullable;

/** Loads NCCL once per JVM, with the variables it is to find in the process's environment. */
public final class NcclLibrary {
  private static boolean loaded;

  private NcclLibrary() {}

  /**
   * Sets environment variables of this process for NCCL, which reads them when the first id or
   * group is made, and never again.
   *
   * @param variables names, which start with {@code NCCL_}, and values
   * @throws IllegalArgumentException if a name is none of NCCL's
   * @throws IllegalStateException if NCCL has started in this JVM with other values
   */
  public static synchronized void configure(Map<String, String> variables) {
    NativeLibraries.load();
    variables.forEach(NcclLibrary::set);
  }

  private static void set(String name, String value) {
    if (!name.matches("NCCL_[A-Z0-9_]+")) {
      throw new IllegalArgumentException(
          "Cannot set '%s' for NCCL: expected a name that starts with NCCL_.".formatted(name));
    }
    String before = read(name);
    if (Objects.equals(before, value)) {
      return;
    }
    if (loaded) {
      throw new IllegalStateException(
          "Cannot set %s to '%s': NCCL has started in this process with %s, and reads it once. Start new executors for other settings."
              .formatted(name, value, before == null ? "none" : "'" + before + "'"));
    }
    torch.set_env(name, value, true);
  }

  private static @Nullable String read(String name) {
    try (StringOptional value = torch.get_env(name)) {
      if (!value.has_value()) {
        return null;
      }
      try (BytePointer text = value.get()) {
        return text.getString();
      }
    }
  }

  /**
   * @throws io.sparktrainer.torch.NativeLibraryException if NCCL, or what it needs, is missing
   */
  static synchronized void load() {
    if (!loaded) {
      CudaDevices.requireUsable();
      NativeLibraries.load();
      CudaLibraries.load(
          () -> nccl.class, "NCCL", "libnccl.so.2", "libcudart.so.13", "libcuda.so.1");
      loaded = true;
    }
  }

  /** What NCCL says about {@code result}, and about what it last met. */
  static String describe(int result) {
    String last = text(nccl.ncclGetLastError(null));
    return "%s%s"
        .formatted(
            text(nccl.ncclGetErrorString(result)), last.isEmpty() ? "" : " (" + last.strip() + ")");
  }

  private static String text(@Nullable BytePointer text) {
    return text == null || text.isNull() ? "" : text.getString();
  }
}
