package io.sparktrainer.nn;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.withinPercentage;

import io.sparktrainer.testing.ProcessGrowth;
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
  private static final String PEAK = "peak=";
  private static final String PLANNED = "planned=";

  /**
   * 24 layers of which each saves 3 tensors of 4 MiB: 288 MiB. Checkpointed, each keeps its input
   * (96 MiB), and one layer at a time its rest.
   */
  @Test
  void theActivationsOfAllLayersButOneAreSavedAsPlanned() throws Exception {
    List<String> plain = run("plain");
    List<String> checkpointed = run("checkpointed");
    double plainMiB = only(plain, PEAK);
    double checkpointedMiB = only(checkpointed, PEAK);
    double activation = CheckpointedMemory.ACTIVATION_BYTES / MEBIBYTE;
    double saved =
        (CheckpointedMemory.LAYERS - 1) * (CheckpointedMemory.SAVED_PER_LAYER - 1) * activation;
    System.out.printf(
        "activation_checkpointing: peak %.0f MiB without (planned %.0f), %.0f MiB with (planned %.0f), predicted saving %.0f MiB%n",
        plainMiB, only(plain, PLANNED), checkpointedMiB, only(checkpointed, PLANNED), saved);
    assertThat(plainMiB - checkpointedMiB).isCloseTo(saved, withinPercentage(10));
    assertThat(without(checkpointed)).isEqualTo(without(plain));
    // The plan leaves out the gradients that are on their way through one layer.
    double gradients = CheckpointedMemory.SAVED_PER_LAYER * activation;
    for (List<String> lines : List.of(plain, checkpointed)) {
      assertThat(only(lines, PEAK))
          .isCloseTo(only(lines, PLANNED) + gradients, withinPercentage(10));
    }
  }

  private static List<String> without(List<String> lines) {
    return lines.stream()
        .filter(line -> !line.startsWith(PEAK) && !line.startsWith(PLANNED))
        .toList();
  }

  private static double only(List<String> lines, String key) {
    return lines.stream()
            .filter(line -> line.startsWith(key))
            .mapToLong(line -> Long.parseLong(line.substring(key.length())))
            .findFirst()
            .orElseThrow()
        / MEBIBYTE;
  }

  private static List<String> run(String mode) throws IOException, InterruptedException {
    // malloc keeps freed memory unless told; what counts here is what the model needs.
    ProcessBuilder builder =
        new ProcessBuilder(
            Path.of(System.getProperty("java.home"), "bin", "java").toString(),
            "-Xmx512m",
            "-XX:+UseSerialGC",
            "-cp",
            System.getProperty("java.class.path"),
            CheckpointedMemory.class.getName(),
            mode);
    builder.environment().putAll(ProcessGrowth.ENVIRONMENT);
    builder.environment().put("MALLOC_MMAP_THRESHOLD_", "65536");
    builder.environment().put("MALLOC_ARENA_MAX", "1");
    Process process = builder.redirectErrorStream(true).start();
    String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertThat(process.waitFor(60, TimeUnit.SECONDS)).isTrue();
    assertThat(process.exitValue()).as(output).isZero();
    return output.lines().filter(line -> line.matches("(peak|planned|loss|gradient)=.*")).toList();
  }
}
