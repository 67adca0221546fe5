package io.sparktrainer.spark.metrics;

import static org.assertj.core.api.Assertions.assertThat;

import io.sparktrainer.engine.EpochMetrics;
import io.sparktrainer.engine.StepMetrics;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.junit.jupiter.api.Test;

class TestConsoleProgress {
  private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
  private long nanos;

  @Test
  void plainOutputGetsALineEveryFiveSeconds() {
    ConsoleProgress progress = progress(ConsoleProgress.Style.PLAIN);
    for (int step = 0; step < 100; step++) {
      progress.accept(step(0, step));
      progress.accept(step(1, step));
      nanos += 100_000_000;
    }
    progress.accept(new MetricRecord.Epoch(new EpochMetrics(0, 0.25, 0.9, 0.5, 0.8, 100, 10)));

    assertThat(text().lines())
        .containsExactly(
            "epoch 1/2  step 1/100  loss 0.5000  128 samples/s",
            "epoch 1/2  step 51/100  loss 0.5000  128 samples/s",
            "epoch 1/2  done in 10.0 s  loss 0.2500  test loss 0.5000  test accuracy 0.8000");
  }

  @Test
  void aTerminalsLineIsWrittenOver() {
    ConsoleProgress progress = progress(ConsoleProgress.Style.TERMINAL);
    progress.accept(step(0, 0));
    nanos += 1_000_000_000;
    progress.accept(step(0, 9));
    progress.endLine();

    assertThat(text())
        .isEqualTo(
            "\repoch 1/2  step 1/100  loss 0.5000  128 samples/s"
                + "\repoch 1/2  step 10/100  loss 0.5000  128 samples/s"
                + System.lineSeparator());
  }

  @Test
  void theTableHasADashForWhatATrainingDoesNotHave() {
    String table =
        EpochTable.of(
            List.of(
                new EpochMetrics(0, 0.25, 0.9, 0.5, 0.8, 9000, 2),
                new EpochMetrics(1, 0.125, null, null, null, 9000, 1.5)),
            List.of());

    assertThat(table.lines())
        .containsExactly(
            "epoch  train loss  train acc  test loss   test acc   samples/s   seconds",
            "    1      0.2500     0.9000     0.5000     0.8000       4,500       2.0",
            "    2      0.1250          -          -          -       6,000       1.5");
  }

  @Test
  void theTableShowsTheFullestGpuWhereThereAreGpus() {
    String table =
        EpochTable.of(
            List.of(new EpochMetrics(0, 0.25, 0.9, 0.5, 0.8, 9000, 2)),
            List.of(
                new DeviceMemory(0, 0, "cuda:0", 20L << 30, 80L << 30),
                new DeviceMemory(1, 0, "cuda:0", 18L << 30, 24L << 30),
                new DeviceMemory(1, 1, "cuda:0", 24L << 30, 24L << 30)));

    assertThat(table.lines())
        .containsExactly(
            "epoch  train loss  train acc  test loss   test acc   samples/s   seconds       GPU memory",
            "    1      0.2500     0.9000     0.5000     0.8000       4,500       2.0   18.0 GiB (75%)");
  }

  private ConsoleProgress progress(ConsoleProgress.Style style) {
    return new ConsoleProgress(
        new PrintStream(bytes, true, StandardCharsets.UTF_8), style, 2, 2, () -> nanos);
  }

  private String text() {
    return bytes.toString(StandardCharsets.UTF_8);
  }

  private static MetricRecord step(int rank, int step) {
    return new MetricRecord.Step(rank, new StepMetrics(0, step, 100, 0.5, 1e-3, null, 16, 0.25));
  }
}
