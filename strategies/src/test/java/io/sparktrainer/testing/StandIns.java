package io.sparktrainer.testing;

import io.sparktrainer.torch.CudaDevices;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import org.opentest4j.TestAbortedException;

/**
 * Stand-ins for the driver, the CUDA runtime and NCCL, on host memory, built with {@code gcc} from
 * the resources in {@code standin}, whose README lists the variables that steer them.
 *
 * <p>Children get them by {@code LD_PRELOAD}: on the library path they would lose against CUDA
 * libraries of the machine's own, and JavaCPP would leave links to them in its cache.
 */
public final class StandIns {
  private static final List<String> SOURCES =
      List.of("standin.h", "cuda.c", "cudart.c", "nccl.c", "nvml.c");

  // In the order they depend on each other.
  private static final List<String[]> LIBRARIES =
      List.of(
          new String[] {"cuda.c", "libcuda.so.1"},
          new String[] {"cudart.c", "libcudart.so.13"},
          new String[] {"nccl.c", "libnccl.so.2"},
          new String[] {"nvml.c", "libnvidia-ml.so.1"});

  private static @Nullable Path folder;

  private StandIns() {}

  /**
   * Variables for the environment of a child that is to see the stand-ins, {@code more} among them.
   * The child calls {@link #allow()} first.
   *
   * @throws TestAbortedException if they cannot be built here
   */
  public static Map<String, String> environment(Map<String, String> more) {
    return environment(List.of("libcuda.so.1", "libcudart.so.13", "libnccl.so.2"), more);
  }

  /** The same with only some of the libraries. */
  public static Map<String, String> environment(List<String> libraries, Map<String, String> more) {
    Path built = build();
    Map<String, String> environment = new TreeMap<>(more);
    List<String> files = new ArrayList<>();
    libraries.forEach(library -> files.add(built.resolve(library).toString()));
    environment.put("LD_PRELOAD", String.join(":", files));
    return Collections.unmodifiableMap(environment);
  }

  /** Lets this JVM use stand-ins as devices. */
  public static void allow() {
    System.setProperty(CudaDevices.ALLOW_STAND_INS, "true");
  }

  /** This JVM's class path as the default build has it at run time, without CUDA and JCuda. */
  public static String classPathWithoutBindings() {
    return Arrays.stream(System.getProperty("java.class.path").split(File.pathSeparator, -1))
        .filter(entry -> !entry.matches(".*/j?cuda-[^/]*\\.jar"))
        .collect(Collectors.joining(File.pathSeparator));
  }

  private static synchronized Path build() {
    if (folder == null) {
      requireCompiler();
      try {
        folder = compile();
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }
    return folder;
  }

  private static void requireCompiler() {
    boolean linux = System.getProperty("os.name").equals("Linux");
    boolean x86 = System.getProperty("os.arch").equals("amd64");
    if (!linux || !x86 || !succeeds("gcc", "--version")) {
      String reason = "skipped: the stand-ins for CUDA need gcc, on Linux on x86-64";
      System.out.println(reason);
      throw new TestAbortedException(reason);
    }
  }

  private static boolean succeeds(String... command) {
    try {
      Process process =
          new ProcessBuilder(command)
              .redirectErrorStream(true)
              .redirectOutput(ProcessBuilder.Redirect.DISCARD)
              .start();
      return process.waitFor() == 0;
    } catch (IOException e) {
      return false;
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return false;
    }
  }

  private static Path compile() throws IOException {
    Path target = Files.createTempDirectory("stand-ins-");
    Runtime.getRuntime().addShutdownHook(new Thread(() -> delete(target)));
    for (String source : SOURCES) {
      try (InputStream text = StandIns.class.getResourceAsStream("/standin/" + source)) {
        Files.copy(text, target.resolve(source));
      }
    }
    for (String[] library : LIBRARIES) {
      List<String> command =
          new ArrayList<>(
              List.of("gcc", "-O2", "-Wall", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden"));
      command.addAll(List.of("-Wl,-soname," + library[1], "-o", library[1], library[0]));
      if (library[0].equals("nccl.c")) {
        command.addAll(List.of("-L.", "-l:libcudart.so.13"));
      }
      command.add("-lpthread");
      run(target, command);
    }
    return target;
  }

  private static void run(Path folder, List<String> command) throws IOException {
    Process process =
        new ProcessBuilder(command).directory(folder.toFile()).redirectErrorStream(true).start();
    String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    try {
      if (process.waitFor() != 0) {
        throw new AssertionError(String.join(" ", command) + ":\n" + output);
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new AssertionError("The build of the stand-ins was interrupted.", e);
    }
  }

  private static void delete(Path folder) {
    try (var files = Files.list(folder)) {
      for (Path file : files.toList()) {
        Files.delete(file);
      }
      Files.delete(folder);
    } catch (IOException e) {
      System.err.println("Cannot delete " + folder + ": " + e);
    }
  }
}
