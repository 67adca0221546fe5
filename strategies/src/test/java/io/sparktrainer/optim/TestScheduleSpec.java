package io.sparktrainer.optim;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import org.junit.jupiter.api.Test;

class TestScheduleSpec {
  @Test
  void constantStaysAtOne() {
    assertThat(ScheduleSpec.constant().factor(0, 1)).isEqualTo(1);
    assertThat(ScheduleSpec.constant().factor(999, 10)).isEqualTo(1);
  }

  /** PyTorch's StepLR multiplies the rate in place whenever the count is a multiple of the size. */
  @Test
  void stepFollowsPyTorchsRecurrence() {
    var schedule = ScheduleSpec.step(30, 0.1);
    double rate = 1;
    for (int step = 0; step < 200; step++) {
      if (step > 0 && step % 30 == 0) {
        rate *= 0.1;
      }
      assertThat(schedule.factor(step, 200)).isCloseTo(rate, within(1e-12));
    }
  }

  /** PyTorch's LinearLR and CosineAnnealingLR in their chained forms, joined at the milestone. */
  @Test
  void cosineFollowsPyTorchsRecurrences() {
    int warmup = 7;
    int total = 50;
    double min = 0.1;
    var schedule = new ScheduleSpec.Cosine(warmup, min);
    double start = 1.0 / (warmup + 1);
    double rate = start;
    for (int step = 0; step < total; step++) {
      if (step > 0 && step < warmup) {
        rate *= 1 + (1 - start) / (warmup * start + (step - 1) * (1 - start));
      } else if (step == warmup) {
        rate = 1;
      } else if (step > warmup) {
        int t = step - warmup;
        int span = total - warmup;
        rate =
            (1 + Math.cos(Math.PI * t / span))
                    / (1 + Math.cos(Math.PI * (t - 1) / span))
                    * (rate - min)
                + min;
      }
      assertThat(schedule.factor(step, total)).as("step %d", step).isCloseTo(rate, within(1e-12));
    }
  }

  @Test
  void cosineHasTheseValues() {
    var schedule = ScheduleSpec.cosine(3);
    assertThat(schedule.factor(0, 13)).isEqualTo(0.25);
    assertThat(schedule.factor(2, 13)).isEqualTo(0.75);
    assertThat(schedule.factor(3, 13)).isEqualTo(1);
    assertThat(schedule.factor(8, 13)).isCloseTo(0.5, within(1e-12));
    assertThat(schedule.factor(13, 13)).isEqualTo(0);
    assertThat(schedule.factor(99, 13)).isEqualTo(0);
    assertThat(ScheduleSpec.cosine(0).factor(0, 10)).isEqualTo(1);
    // a training shorter than its warm-up
    assertThat(ScheduleSpec.cosine(9).factor(4, 5)).isEqualTo(0.5);
    assertThat(new ScheduleSpec.Cosine(5, 0.2).factor(5, 5)).isEqualTo(0.2);
  }

  @Test
  void namesAreThoseOfAConfiguration() {
    assertThat(ScheduleSpec.constant().name()).isEqualTo("constant");
    assertThat(ScheduleSpec.step(1, 1).name()).isEqualTo("step");
    assertThat(ScheduleSpec.cosine(1).name()).isEqualTo("cosine");
  }

  @Test
  void optionsOutOfRangeAreRefused() {
    assertThatThrownBy(() -> ScheduleSpec.step(0, 0.5))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("Cannot use schedule step with step_size 0: expected at least 1.");
    assertThatThrownBy(() -> ScheduleSpec.step(3, Double.NaN))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("Cannot use schedule step with gamma NaN: expected a finite value above 0.");
    assertThatThrownBy(() -> ScheduleSpec.cosine(-1))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("Cannot use schedule cosine with warmup_steps -1: expected at least 0.");
    assertThatThrownBy(() -> new ScheduleSpec.Cosine(1, 1.5))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("Cannot use schedule cosine with min_factor 1.5: expected a value in [0, 1].");
    assertThatThrownBy(() -> ScheduleSpec.constant().factor(-1, 5))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage(
            "Cannot schedule a learning rate: expected a step from 0 and at least 1 step in all, got step -1 of 5.");
    assertThatThrownBy(() -> ScheduleSpec.cosine(1).factor(0, 0))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("got step 0 of 0");
  }
}
