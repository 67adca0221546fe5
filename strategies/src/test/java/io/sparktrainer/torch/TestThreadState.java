package io.sparktrainer.torch;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.concurrent.Callable;
import java.util.concurrent.FutureTask;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Test;

/** What every thread has of its own: random numbers, recording, thread counts. */
class TestThreadState {
  private static float[] draw() {
    try (var scope = NativeScope.open()) {
      return Tensors.toFloats(
          Tensors.empty(DType.FLOAT32, Device.CPU, 5).uniform_(0, 1, Rng.generator()));
    }
  }

  private static <T> T onAnotherThread(Callable<T> work) throws Exception {
    FutureTask<T> task = new FutureTask<>(work);
    new Thread(task).start();
    return task.get();
  }

  @Test
  void theSameSeedGivesTheSameNumbersOnEveryThread() throws Exception {
    Rng.seed(7);
    float[] first = draw();
    float[] second = draw();
    assertThat(second).isNotEqualTo(first);
    Rng.seed(7);
    assertThat(draw()).isEqualTo(first);
    float[] elsewhere =
        onAnotherThread(
            () -> {
              Rng.seed(7);
              draw();
              return draw();
            });
    assertThat(elsewhere).isEqualTo(second);
    // the other thread has not moved this one's sequence
    assertThat(draw()).isEqualTo(second);
    Rng.seed(8);
    assertThat(draw()).isNotEqualTo(first);
  }

  @Test
  void aStateContinuesTheSequence() {
    try (var scope = NativeScope.open()) {
      Rng.seed(7);
      draw();
      Tensor state = Rng.state();
      float[] next = draw();
      long drawn = Rng.draw();
      Rng.restore(state);
      assertThat(draw()).isEqualTo(next);
      assertThat(Rng.draw()).isEqualTo(drawn).isNotNegative();
    }
  }

  @Test
  void recordingIsSwitchedAndRestored() throws Exception {
    assertThat(Gradients.areOn()).isTrue();
    try (var off = Gradients.off()) {
      assertThat(Gradients.areOn()).isFalse();
      try (var on = Gradients.on()) {
        assertThat(Gradients.areOn()).isTrue();
      }
      assertThat(Gradients.areOn()).isFalse();
      assertThat(onAnotherThread(Gradients::areOn)).isTrue();
    }
    assertThat(Gradients.areOn()).isTrue();
  }

  @Test
  void coresAreSharedEqually() {
    assertThat(Threads.share(8, 2)).isEqualTo(4);
    assertThat(Threads.share(7, 2)).isEqualTo(3);
    assertThat(Threads.share(2, 5)).isEqualTo(1);
    assertThatThrownBy(() -> Threads.share(0, 1))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage(
            "Cannot share cores: expected at least 1 core and 1 rank, got 0 cores and 1 ranks.");
  }

  @Test
  void threadCountsAreSet() throws Exception {
    int used =
        onAnotherThread(
            () -> {
              Threads.use(2);
              Threads.use(1);
              return Threads.inUse();
            });
    assertThat(used).isEqualTo(1);
    assertThatThrownBy(() -> Threads.use(0))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("Cannot set the thread count: expected at least 1, got 0.");
  }
}
