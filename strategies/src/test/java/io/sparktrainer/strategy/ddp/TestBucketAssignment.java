package io.sparktrainer.strategy.ddp;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.strategy.ddp.BucketAssignment.Gradient;
import io.sparktrainer.torch.DType;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** The vectors were taken from PyTorch 2.13's compute_bucket_assignment_by_size. */
class TestBucketAssignment {
  @Test
  void eachGradientThatReachesTheLimitClosesItsBucket() {
    assertThat(BucketAssignment.assign(floats(100, 200, 100, 50), List.of(400L)))
        .isEqualTo(List.of(List.of(0), List.of(1), List.of(2), List.of(3)));
  }

  @Test
  void typesDoNotShareBuckets() {
    assertThat(BucketAssignment.assign(mixed(50, 25, 3), List.of(400L)))
        .isEqualTo(List.of(List.of(0, 2), List.of(1, 3), List.of(4), List.of(5)));
  }

  @Test
  void theFirstLimitIsForTheFirstBucket() {
    assertThat(BucketAssignment.assign(floats(10, 10, 10, 10), List.of(40L, 80L)))
        .isEqualTo(List.of(List.of(0), List.of(1, 2), List.of(3)));
  }

  @Test
  void aBucketMayExceedItsLimitByItsLastGradient() {
    assertThat(BucketAssignment.assign(floats(10, 10, 10, 10), List.of(79L)))
        .isEqualTo(List.of(List.of(0, 1), List.of(2, 3)));
  }

  @Test
  void eachTypeWalksThroughTheLimitsOnItsOwn() {
    assertThat(BucketAssignment.assign(mixed(10, 10, 3), List.of(200L, 400L)))
        .isEqualTo(List.of(List.of(0, 2, 4), List.of(1, 3, 5)));
  }

  @Test
  void emptyGradientsJoinTheOpenBucket() {
    assertThat(BucketAssignment.assign(floats(0, 10, 0), List.of(40L)))
        .isEqualTo(List.of(List.of(0, 1), List.of(2)));
  }

  @Test
  void aSparseGradientIsAlone() {
    List<Gradient> gradients = new ArrayList<>(floats(10, 10, 10));
    gradients.set(1, new Gradient(40, DType.FLOAT32, true));
    assertThat(BucketAssignment.assign(gradients, List.of(40L)))
        .isEqualTo(List.of(List.of(0), List.of(1), List.of(2)));
  }

  @Test
  void aLimitIsNeeded() {
    assertThatThrownBy(() -> BucketAssignment.assign(floats(1), List.of()))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("expected at least one limit");
  }

  private static List<Gradient> floats(int... numels) {
    return IntStream.of(numels).mapToObj(n -> new Gradient(4L * n, DType.FLOAT32, false)).toList();
  }

  private static List<Gradient> mixed(int floats, int doubles, int pairs) {
    List<Gradient> gradients = new ArrayList<>();
    for (int i = 0; i < pairs; i++) {
      gradients.add(new Gradient(4L * floats, DType.FLOAT32, false));
      gradients.add(new Gradient(8L * doubles, DType.FLOAT64, false));
    }
    return gradients;
  }
}
