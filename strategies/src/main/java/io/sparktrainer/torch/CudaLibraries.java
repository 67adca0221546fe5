package io.sparktrainer.torch;

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.bytedeco.javacpp.Loader;
import org.jspecify.annotations.Nullable;

/**
 * Loading the machine's CUDA libraries and JavaCPP's bindings to them, with one error that says
 * what is missing and where it was looked for.
 */
public final class CudaLibraries {
  private static final List<String> CUDA_FOLDERS =
      List.of("/usr/local/cuda-13.1/lib64", "/usr/local/cuda/lib64", "/usr/lib64");

  private CudaLibraries() {}

  /** Bindings that name classes of JavaCPP's, which may not be on the class path. */
  public interface Bindings {
    /** The class to load; called where a {@link LinkageError} is expected. */
    Class<?> type();
  }

  /**
   * Loads {@code bindings} and the libraries they bind.
   *
   * @param what for the message, such as {@code "NCCL"}
   * @param libraries files that have to be on this machine, such as {@code libnccl.so.2}
   * @throws NativeLibraryException if bindings or libraries are missing
   */
  public static void load(Bindings bindings, String what, String... libraries) {
    Class<?> type;
    try {
      type = bindings.type();
    } catch (LinkageError e) {
      throw new NativeLibraryException(
          "Cannot load "
              + what
              + ": expected org.bytedeco:cuda on the class path, got none. Build with -Pgpu."
              + NativeLibraryException.ONCE,
          e);
    }
    try {
      Loader.load(type);
    } catch (LinkageError | RuntimeException e) {
      throw new NativeLibraryException(message(what, rootOf(e), libraries), e);
    }
  }

  private static String message(String what, Throwable cause, String... libraries) {
    return "Cannot load %s: expected %s of CUDA 13 and NVIDIA driver 580 or newer, got %s. %s. Looked in %s. Install CUDA 13's libraries and NCCL 2, set LD_LIBRARY_PATH to their folder, or put org.bytedeco:cuda with classifier linux-x86_64-redist on the class path."
            .formatted(
                what,
                String.join(", ", libraries),
                cause.getMessage(),
                found(libraries),
                searched())
        + NativeLibraryException.ONCE;
  }

  /** The error that says which file was missing is the innermost. */
  private static Throwable rootOf(Throwable error) {
    Throwable root = error;
    for (Throwable next = error.getCause(); next != null; next = next.getCause()) {
      root = next;
    }
    return root;
  }

  private static String found(String... libraries) {
    List<String> states = new ArrayList<>();
    for (String library : libraries) {
      Path file = find(library);
      states.add(library + (file == null ? " not found" : " found as " + file));
    }
    return String.join(", ", states);
  }

  private static @Nullable Path find(String library) {
    for (String folder : folders()) {
      Path file = Path.of(folder, library);
      if (Files.exists(file)) {
        return file;
      }
    }
    return null;
  }

  /** Folders that are searched, for messages. */
  static String searched() {
    return String.join(":", folders());
  }

  private static Set<String> folders() {
    Set<String> folders = new LinkedHashSet<>(CUDA_FOLDERS);
    for (String folder :
        System.getProperty("java.library.path", "").split(File.pathSeparator, -1)) {
      if (!folder.isEmpty()) {
        folders.add(folder);
      }
    }
    return folders;
  }
}
