package io.sparktrainer.spark.metrics;

import static org.assertj.core.api.Assertions.assertThat;

import io.sparktrainer.engine.StepMetrics;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class TestStartFirst {
  private static final MetricRecord START = new MetricRecord.Start(100, 10, 7, 21);

  private final List<MetricRecord> received = new ArrayList<>();
  private final StartFirst sink = new StartFirst(received::add);

  @Test
  void aStepThatOvertookTheStartComesAfterIt() {
    sink.accept(step(1, 0));
    sink.accept(step(1, 1));
    assertThat(received).isEmpty();
    sink.accept(START);
    sink.accept(step(0, 0));

    assertThat(received).containsExactly(START, step(1, 0), step(1, 1), step(0, 0));
  }

  @Test
  void withoutAStartNothingIsLost() {
    for (int i = 0; i < StartFirst.MOST_HELD - 1; i++) {
      sink.accept(step(1, i));
    }
    assertThat(received).isEmpty();
    sink.accept(step(1, StartFirst.MOST_HELD - 1));
    assertThat(received).hasSize(StartFirst.MOST_HELD);
    sink.accept(step(1, StartFirst.MOST_HELD));
    assertThat(received).hasSize(StartFirst.MOST_HELD + 1);
  }

  @Test
  void theEndReleasesWhatIsHeld() {
    sink.accept(step(1, 0));
    sink.release();

    assertThat(received).containsExactly(step(1, 0));
  }

  private static MetricRecord step(int rank, int step) {
    return new MetricRecord.Step(rank, new StepMetrics(0, step, 2_000, 0.5, 1e-3, null, 16, 0.25));
  }
}
