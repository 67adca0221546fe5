package io.sparktrainer.devicecheck;

import static org.assertj.core.api.Assertions.assertThat;

import io.sparktrainer.testing.Golden;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The check has to run at its first sight of a GPU: here it runs as it would there, on the CPU. */
class ITDeviceCheck {
  private static final int SECONDS = 120;

  @Test
  void runsOnTheCpu(@TempDir Path folder) throws Exception {
    Path report = folder.resolve("report.md");
    Path log = folder.resolve("log");
    // Prints one time, as eager.py does.
    String eager =
        "{\"torch\": \"2.x\", \"model\": \"%s\", \"precision\": \"%s\", \"milliseconds\": 1.0}\\n";
    String times = "";
    for (String model : new String[] {"cnn", "gpt"}) {
      for (String precision : new String[] {"none", "bf16"}) {
        times += eager.formatted(model, precision);
      }
    }

    Process process =
        new ProcessBuilder(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-Dgolden.dir=" + Golden.folder(),
                "-cp",
                System.getProperty("java.class.path"),
                DeviceCheck.class.getName(),
                "cpu",
                "small",
                report.toString(),
                "printf",
                times)
            .redirectErrorStream(true)
            .redirectOutput(log.toFile())
            .start();
    boolean ended = process.waitFor(SECONDS, TimeUnit.SECONDS);
    process.destroyForcibly();

    assertThat(ended).as("ends within %d s", SECONDS).isTrue();
    assertThat(process.exitValue()).as(Files.readString(log)).isZero();
    assertThat(Files.readString(report))
        .contains("| none-gpt-adam | ddp | loss ")
        .contains("| CNN | fsdp | BF16 | ")
        .contains("| none | ")
        .containsPattern("\\| fsdp, cpu_offload \\| [0-9.]+ \\| [0-9.]+ \\| [0-9.]+ \\|")
        .containsPattern("\\| gpt bf16 \\| [0-9.]+ \\| 1.000 \\| [0-9.]+ \\|")
        .doesNotContain("FAILED");
  }
}
