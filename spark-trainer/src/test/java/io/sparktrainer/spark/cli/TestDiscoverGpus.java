package io.sparktrainer.spark.cli;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.apache.spark.resource.ResourceInformation;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The script for Spark's discovery of GPUs, with an nvidia-smi of the test's own. */
class TestDiscoverGpus {
  private static final String THREE =
      """
      0, GPU-aaaaaaaa-0000-0000-0000-000000000000
      1, GPU-bbbbbbbb-0000-0000-0000-000000000000
      2, GPU-cccccccc-0000-0000-0000-000000000000
      """;

  @TempDir Path folder;

  private record Outcome(int exitCode, String out, String err) {
    /** As Spark itself reads it. */
    String[] addresses() {
      ResourceInformation information = ResourceInformation.parseJson(out);
      assertThat(information.name()).isEqualTo("gpu");
      return information.addresses();
    }
  }

  @Test
  void printsTheNumbersOfNvidiaSmi() throws Exception {
    nvidiaSmi("echo '" + THREE + "'");

    assertThat(run(Map.of()).addresses()).containsExactly("0", "1", "2");
  }

  @Test
  void keepsToCudaVisibleDevicesAsItIsWritten() throws Exception {
    nvidiaSmi("echo '" + THREE + "'");

    assertThat(visible("2,0")).containsExactly("2", "0");
    assertThat(visible("GPU-bbbb")).containsExactly("GPU-bbbb");
    assertThat(visible("1,7,2")).containsExactly("1");
    assertThat(visible("MIG-11111111-2222-3333-4444-555555555555"))
        .containsExactly("MIG-11111111-2222-3333-4444-555555555555");
    assertThat(visible("")).isEmpty();
  }

  @Test
  void withoutADriverThereAreNone() throws Exception {
    Outcome outcome = run(Map.of());

    assertThat(outcome.exitCode()).isZero();
    assertThat(outcome.addresses()).isEmpty();
    assertThat(outcome.err()).startsWith("No GPUs: there is no nvidia-smi on the PATH.");
  }

  @Test
  void aDriverThatFailsIsSaid() throws Exception {
    nvidiaSmi("echo 'Driver/library version mismatch'; exit 18");

    Outcome outcome = run(Map.of());

    assertThat(outcome.exitCode()).isEqualTo(1);
    assertThat(outcome.out()).isEmpty();
    assertThat(outcome.err())
        .startsWith("Cannot list GPUs: nvidia-smi failed: Driver/library version mismatch");
  }

  private String[] visible(String cudaVisibleDevices) throws Exception {
    return run(Map.of("CUDA_VISIBLE_DEVICES", cudaVisibleDevices)).addresses();
  }

  private void nvidiaSmi(String body) throws Exception {
    Path script = folder.resolve("nvidia-smi");
    Files.writeString(script, "#!/bin/bash\n" + body + "\n");
    assertThat(script.toFile().setExecutable(true)).isTrue();
  }

  /** With nothing on the PATH but the test's own folder and what bash itself needs. */
  private Outcome run(Map<String, String> environment) throws Exception {
    Path err = folder.resolve("err");
    ProcessBuilder builder =
        new ProcessBuilder("/bin/bash", Path.of("bin/discover-gpus").toAbsolutePath().toString())
            .redirectError(err.toFile());
    builder.environment().clear();
    builder.environment().put("PATH", folder.toString());
    builder.environment().putAll(environment);
    Process process = builder.start();
    String out = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    return new Outcome(process.waitFor(), out, Files.readString(err));
  }
}
