package io.sparktrainer.nn;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

@Tag("proof")
class ITCheckpointedMemory {
  private static final double MEBIBYTE = 1 << 20;

  /**
   * 24 layers of which each saves 3 tensors of 4 MiB: 288 MiB. Checkpointed, each keeps its input
   * (96 MiB), and one layer at a time its rest.
   */
  @Test
  void theActivationsOfAllLayersButOneAreSaved() throws Exception {
    List<String> plain = run("plain");
    List<String> checkpointed = run("checkpointed");
    double plainMiB = peak(plain);
    double checkpointedMiB = peak(checkpointed);
    double activation = CheckpointedMemory.ACTIVATION_BYTES / MEBIBYTE;
    double saved =
        (CheckpointedMemory.LAYERS - 1) * (CheckpointedMemory.SAVED_PER_LAYER - 1) * activation;
    System.out.printf(
        "Peak above start: plain %.0f MiB, checkpointed %.0f MiB, predicted saving %.0f MiB%n",
        plainMiB, checkpointedMiB, saved);
    assertThat(plainMiB - checkpointedMiB).isCloseTo(saved, within(0.15 * saved));
    assertThat(checkpointedMiB).isLessThan(0.6 * plainMiB);
    assertThat(without(checkpointed)).isEqualTo(without(plain));
  }

  private static List<String> without(List<String> lines) {
    return lines.stream().filter(line -> !line.startsWith("peak=")).toList();
  }

  private static double peak(List<String> lines) {
    return lines.stream()
            .filter(line -> line.startsWith("peak="))
            .mapToLong(line -> Long.parseLong(line.substring("peak=".length())))
            .findFirst()
            .orElseThrow()
        / MEBIBYTE;
  }

  private static List<String> run(String mode) throws IOException, InterruptedException {
    // malloc keeps freed memory unless told; what counts here is what the model needs.
    ProcessBuilder builder =
        new ProcessBuilder(
            Path.of(System.getProperty("java.home"), "bin", "java").toString(),
            "-Xmx128m",
            "-XX:+UseSerialGC",
            "-cp",
            System.getProperty("java.class.path"),
            CheckpointedMemory.class.getName(),
            mode);
    builder.environment().put("MALLOC_MMAP_THRESHOLD_", "65536");
    builder.environment().put("MALLOC_ARENA_MAX", "1");
    Process process = builder.redirectErrorStream(true).start();
    String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertThat(process.waitFor(60, TimeUnit.SECONDS)).isTrue();
    assertThat(process.exitValue()).as(output).isZero();
    return output.lines().filter(line -> line.matches("(peak|loss|gradient)=.*")).toList();
  }
}
