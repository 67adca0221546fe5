package io.sparktrainer.strategy.ddp;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import io.sparktrainer.comm.CollectiveCounts;
import io.sparktrainer.comm.CollectiveCounts.Kind;
import io.sparktrainer.comm.Communicator;
import io.sparktrainer.comm.testing.RankThreads;
import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.strategy.GradientCompression;
import io.sparktrainer.strategy.GradientCompression.PowerSgd;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.ObjDoubleConsumer;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class TestGradientCompression {
  private static final int STEPS = 4;

  /** pytorch/pytorch PR 43307: results in a buffer of their own have to come back. */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void report14NarrowerTypesComeBackInEveryIteration(boolean asView) {
    DdpOptions.Builder options =
        DdpOptions.builder().bucketCapMb(0.0005).gradientAsBucketView(asView);
    List<float[]> exact = gradients(options.build());
    assertClose(
        gradients(options.compression(new GradientCompression.Fp16()).build()), exact, 1e-3);
    assertClose(
        gradients(options.compression(new GradientCompression.Bf16()).build()), exact, 8e-3);
  }

  @Test
  void narrowerTypesSendHalfTheBytes() {
    long whole = bytesOfOneStep(new GradientCompression.None());
    assertThat(bytesOfOneStep(new GradientCompression.Bf16())).isEqualTo(whole / 2);
    assertThat(bytesOfOneStep(new GradientCompression.Fp16())).isEqualTo(whole / 2);
  }

  @Test
  void powerSgdSendsFactorsAndVectorsOnly() {
    // fc1 is 33 x 20 and fc2 17 x 33; fc3, 5 x 17, does not pay at rank 2. Biases are 33, 17 and 5,
    // and one element more carries the flag.
    long floats = 2 * (33 + 20) + 2 * (17 + 33) + 5 * 17 + 33 + 17 + 5 + 1;
    assertThat(bytesOfOneStep(PowerSgd.builder().rank(2).startIteration(0).build()))
        .isEqualTo(floats * Float.BYTES);
  }

  @Test
  void powerSgdOfFullRankIsExact() {
    PowerSgd everything =
        PowerSgd.builder().rank(64).startIteration(0).minCompressionRate(1e-3).build();
    assertClose(
        gradients(DdpOptions.builder().compression(everything).build()),
        gradients(DdpOptions.defaults()),
        1e-4);
  }

  @Test
  void powerSgdSendsEverythingWholeBeforeItsStart() {
    PowerSgd late = PowerSgd.builder().startIteration(STEPS).build();
    List<float[]> exact = gradients(DdpOptions.defaults());
    List<float[]> actual = gradients(DdpOptions.builder().compression(late).build());
    for (int i = 0; i < exact.size(); i++) {
      assertThat(actual.get(i)).isEqualTo(exact.get(i));
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void errorFeedbackDeliversWhatTheFactorsLost(boolean errorFeedback) {
    PowerSgd options =
        PowerSgd.builder()
            .rank(1)
            .startIteration(0)
            .errorFeedback(errorFeedback)
            .warmStart(false)
            .build();
    int steps = 60;
    RankThreads.runConnected(
        2,
        communicator -> {
          // The same gradient in every step: with feedback, the mean of what was applied becomes
          // it.
          float[] gradient = new float[16 * 12];
          for (int i = 0; i < gradient.length; i++) {
            gradient[i] = (float) Math.sin(i * i + communicator.rank());
          }
          double[] applied = new double[gradient.length];
          float[] mean = mean(gradient, communicator);
          try (var exchange = exchange(options, communicator);
              Bucket bucket = bucket()) {
            for (int step = 0; step < steps; step++) {
              float[] sum = reduce(exchange, bucket, gradient, communicator);
              for (int i = 0; i < sum.length; i++) {
                applied[i] += sum[i] / steps;
              }
            }
          }
          double error = 0;
          double size = 0;
          for (int i = 0; i < mean.length; i++) {
            error += Math.pow(applied[i] - mean[i], 2);
            size += Math.pow(mean[i], 2);
          }
          double relative = Math.sqrt(error / size);
          if (errorFeedback) {
            assertThat(relative).isLessThan(0.15);
          } else {
            assertThat(relative).isGreaterThan(0.3);
          }
        });
  }

  @Test
  void stateOfPowerSgdContinuesWhereItWasSaved() {
    PowerSgd options = PowerSgd.builder().rank(1).startIteration(1).build();
    RankThreads.runConnected(
        2,
        communicator -> {
          try (var first = exchange(options, communicator);
              var second = exchange(options, communicator);
              Bucket bucket = bucket()) {
            for (int step = 0; step < 3; step++) {
              reduce(first, bucket, gradient(step, communicator), communicator);
            }
            Map<String, Tensor> saved = new HashMap<>(first.state());
            assertThat(saved.keySet()).containsExactlyInAnyOrder("iteration", "error.w", "right.w");
            second.loadState(saved);
            float[] expected = reduce(first, bucket, gradient(3, communicator), communicator);
            float[] actual = reduce(second, bucket, gradient(3, communicator), communicator);
            assertThat(actual).isEqualTo(expected);
          }
        });
  }

  @Test
  void stateThatDoesNotFitIsRefused() {
    try (var communicator = new io.sparktrainer.comm.LocalCommunicator();
        var exchange = exchange(PowerSgd.builder().build(), communicator);
        var none =
            BucketExchange.of(new GradientCompression.None(), List.of(), List.of(), communicator);
        var scope = NativeScope.open()) {
      Tensor one = Tensors.of(new long[] {1}, 1);
      assertThatThrownBy(() -> exchange.loadState(Map.of("error.other", one)))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessageContaining("expected nothing for error.other, got int64[1]");
      assertThatThrownBy(() -> exchange.loadState(Map.of("right.w", one)))
          .hasMessageContaining("expected [12, 1] for right.w");
      assertThatThrownBy(() -> exchange.loadState(Map.of()))
          .hasMessageContaining("expected an iteration");
      assertThatThrownBy(() -> none.loadState(Map.of("iteration", one)))
          .hasMessageContaining("Set ddp.compression as it was");
    }
  }

  @Test
  void columnsBecomeOrthonormalAndZerosStayZero() {
    try (var scope = NativeScope.open()) {
      Tensor columns = Tensors.of(new float[] {3, 3, 0, 4, 5, 0, 0, 7, 0}, 3, 3);
      PowerSgdExchange.orthonormal(columns);
      float[] gram = Tensors.toFloats(columns.t().matmul(columns));
      assertThat(gram).containsExactly(new float[] {1, 0, 0, 0, 1, 0, 0, 0, 0}, within(1e-6f));
    }
  }

  @Test
  void optionsOutOfRangeAreRefused() {
    assertThatThrownBy(() -> PowerSgd.builder().rank(0).build())
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("expected a rank of at least 1");
  }

  private static PowerSgdExchange exchange(PowerSgd options, Communicator communicator) {
    try (var scope = NativeScope.open()) {
      Tensor parameter = Tensors.of(new float[16 * 12], 16, 12);
      return new PowerSgdExchange(options, List.of("w"), List.of(parameter), communicator);
    }
  }

  private static Bucket bucket() {
    try (var scope = NativeScope.open()) {
      return new Bucket(List.of(0), List.of(Tensors.of(new float[16 * 12], 16, 12)));
    }
  }

  private static float[] reduce(
      BucketExchange exchange, Bucket bucket, float[] gradient, Communicator communicator) {
    try (var scope = NativeScope.open()) {
      bucket
          .slot(0)
          .copy_(Tensors.of(gradient, 16, 12).div(Tensors.scalar(communicator.worldSize())));
      bucket.flag(0);
      BucketExchange.Exchange started = exchange.start(bucket);
      started.secondRound();
      started.await();
      exchange.finishedPass();
      return Tensors.toFloats(bucket.slot(0));
    }
  }

  private static float[] gradient(int step, Communicator communicator) {
    float[] values = new float[16 * 12];
    for (int i = 0; i < values.length; i++) {
      values[i] = (float) Math.sin(i * (step + 1.3) + communicator.rank());
    }
    return values;
  }

  private static float[] mean(float[] values, Communicator communicator) {
    try (var scope = NativeScope.open()) {
      Tensor sum = Tensors.of(values, values.length);
      communicator.allReduce(sum, io.sparktrainer.comm.ReduceOp.AVG).await();
      return Tensors.toFloats(sum);
    }
  }

  /** Rank 0's gradients of every step on two ranks, without updates. */
  private static List<float[]> gradients(DdpOptions options) {
    List<float[]> found = new ArrayList<>();
    run(
        options,
        (strategy, bytes) -> {
          if (strategy.rank() == 0) {
            strategy.trainable().values().forEach(p -> found.add(Tensors.toFloats(p.grad())));
          }
        });
    return found;
  }

  private static long bytesOfOneStep(GradientCompression compression) {
    double[] last = new double[1];
    run(
        DdpOptions.builder().compression(compression).build(),
        (strategy, bytes) -> last[0] = bytes);
    return (long) last[0];
  }

  private static void run(DdpOptions options, ObjDoubleConsumer<DdpStrategy> afterStep) {
    RankThreads.runConnected(
        2,
        communicator -> {
          try (var strategy = new DdpStrategy(TestDdpStrategy.mlp(), communicator, options)) {
            for (int step = 0; step < STEPS; step++) {
              CollectiveCounts before = communicator.counts();
              TestDdpStrategy.step(
                  strategy,
                  step,
                  communicator.rank(),
                  1,
                  io.sparktrainer.strategy.GradientSync.REDUCE);
              CollectiveCounts sent = communicator.counts().since(before);
              synchronized (afterStep) {
                afterStep.accept(strategy, sent.bytes(Kind.ALL_REDUCE));
              }
            }
          }
        });
  }

  private static void assertClose(List<float[]> actual, List<float[]> expected, double tolerance) {
    assertThat(actual).hasSameSizeAs(expected);
    for (int i = 0; i < expected.size(); i++) {
      float largest = 0;
      for (float value : expected.get(i)) {
        largest = Math.max(largest, Math.abs(value));
      }
      assertThat(actual.get(i))
          .as("gradient %d", i)
          .containsExactly(expected.get(i), within((float) tolerance * largest));
    }
  }
}
