package io.sparktrainer.torch;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Loading, in JVMs of their own, for a library is loaded once per JVM. */
class TestNativeLibraries {
  @TempDir Path folder;

  private String run(Class<?> main, String... options) throws IOException, InterruptedException {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.add("-Xmx256m");
    command.addAll(List.of(options));
    command.add("-cp");
    command.add(System.getProperty("java.class.path"));
    command.add(main.getName());
    Path output = folder.resolve("output");
    Process process =
        new ProcessBuilder(command)
            .redirectErrorStream(true)
            .redirectOutput(output.toFile())
            .start();
    process.waitFor();
    return Files.readString(output, StandardCharsets.UTF_8);
  }

  /** Tries to load twice. */
  static final class LoadTwice {
    private LoadTwice() {}

    public static void main(String[] args) {
      for (int i = 0; i < 2; i++) {
        try {
          Tensors.zeros(DType.FLOAT32, Device.CPU, 1);
          System.out.println("loaded");
        } catch (NativeLibraryException e) {
          System.out.println("refused: " + e.getMessage());
        }
      }
    }
  }

  @Test
  void aPlatformWithoutLibrariesIsRefusedEveryTimeWithWhatToDo() throws Exception {
    String output = run(LoadTwice.class, "-Dorg.bytedeco.javacpp.platform=plan9-mips");
    assertThat(output.lines().filter(line -> line.startsWith("refused: ")))
        .hasSize(2)
        .allSatisfy(
            line ->
                assertThat(line)
                    .contains(
                        "Cannot load libtorch: expected native libraries for platform plan9-mips")
                    .contains("Add org.bytedeco:pytorch with the classifier of this platform"));
    assertThat(output).doesNotContain("loaded");
  }

  /** What the first computations open, beyond what loading has opened. */
  static final class OpenedLater {
    private OpenedLater() {}

    public static void main(String[] args) throws IOException {
      NativeLibraries.load();
      Set<String> before = libraries();
      try (var scope = NativeScope.open()) {
        Threads.use(2);
        torch.mm(torch.ones(300, 300), torch.ones(300, 300));
        torch.linalg_inv(torch.eye(20));
      }
      Set<String> later = libraries();
      later.removeAll(before);
      System.out.println("before: " + before);
      System.out.println("later: " + later);
    }

    private static Set<String> libraries() throws IOException {
      try (var lines = Files.lines(Path.of("/proc/self/maps"))) {
        return lines
            .filter(line -> line.contains(".so"))
            .map(line -> line.substring(line.lastIndexOf('/') + 1))
            .collect(Collectors.toCollection(TreeSet::new));
      }
    }
  }

  /** A library opened by one rank while another looks a function up can deadlock both. */
  @Test
  void computingOpensNoLibraryThatLoadingHasNot() throws Exception {
    String output = run(OpenedLater.class);
    assertThat(output).contains("libtorch_cpu.so").contains("libmkl_core").contains("later: []");
  }
}
