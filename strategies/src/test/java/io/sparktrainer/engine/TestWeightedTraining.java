package io.sparktrainer.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import io.sparktrainer.comm.Communicator;
import io.sparktrainer.comm.LocalCommunicator;
import io.sparktrainer.comm.testing.RankThreads;
import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.Losses;
import io.sparktrainer.nn.Mlp;
import io.sparktrainer.optim.OptimizerSpec;
import io.sparktrainer.optim.ScheduleSpec;
import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.strategy.FsdpOptions;
import io.sparktrainer.strategy.ParallelStrategy;
import io.sparktrainer.strategy.StrategySpec;
import io.sparktrainer.strategy.UnevenInputs;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Rng;
import io.sparktrainer.torch.Tensors;
import java.util.Iterator;
import java.util.List;
import java.util.TreeMap;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Each strategy on weighted rows against {@code none} on one batch in which a row of weight 2 is
 * there twice and one of weight 0 not at all.
 */
@SuppressWarnings("ArrayRecordComponent") // never compared
class TestWeightedTraining {
  private static final int FEATURES = 3;
  private static final int[] WEIGHTS = {2, 0, 1, 3, 1, 1, 0, 2, 1, 4, 0, 1, 2, 2, 1, 1};

  /** The two steps of an epoch, each as the reference's one batch. */
  private static final int[][] STEPS = {{0, 1, 2, 3, 4, 5, 6, 7}, {8, 9, 10, 11, 12, 13, 14, 15}};

  /** How ranks and micro-batches share a step's rows: unequal numbers, very unequal weights. */
  private record Case(String name, StrategySpec spec, int accumulate, int[][][] batchesByRank) {
    @Override
    public String toString() {
      return name;
    }
  }

  static Stream<Case> cases() {
    DdpOptions ddp = DdpOptions.defaults();
    int[][][] alone = {STEPS};
    int[][][] halves = {{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10}, {11, 12, 13, 14, 15}}};
    int[][][] two = {{{0, 1, 2}, {8, 9, 10, 11}}, {{3, 4, 5, 6, 7}, {12, 13, 14, 15}}};
    int[][][] twoHalves = {
      {{0, 1}, {2, 3}, {10}, {8, 9}}, {{4}, {5, 6, 7}, {11, 12}, {13, 14, 15}}
    };

    return Stream.of(
        new Case("none", new StrategySpec.None(0), 1, alone),
        new Case("none, accumulating", new StrategySpec.None(0), 2, halves),
        new Case("dp", StrategySpec.Dp.onCpu(3), 1, alone),
        new Case("dp, accumulating", StrategySpec.Dp.onCpu(2), 2, halves),
        new Case("ddp", new StrategySpec.Ddp(2, ddp), 1, two),
        new Case("ddp, accumulating", new StrategySpec.Ddp(2, ddp), 2, twoHalves),
        new Case("fsdp", new StrategySpec.Fsdp(2, FsdpOptions.defaults()), 1, two),
        new Case(
            "fsdp, accumulating", new StrategySpec.Fsdp(2, FsdpOptions.defaults()), 2, twoHalves));
  }

  @ParameterizedTest
  @MethodSource("cases")
  void everyStrategyTrainsOnTheGlobalWeightedMean(Case wanted) {
    Result expected = alone(STEPS);
    List<Result> results =
        RankThreads.collect(
            wanted.spec().workers(),
            communicator ->
                fit(
                    wanted.spec(),
                    communicator,
                    wanted.accumulate(),
                    new Rows(wanted.batchesByRank()[communicator.rank()], true)));
    for (Result result : results) {
      for (int epoch = 0; epoch < 2; epoch++) {
        EpochMetrics metrics = result.epochs().get(epoch);
        EpochMetrics reference = expected.epochs().get(epoch);
        assertThat(metrics.loss()).isCloseTo(reference.loss(), within(1e-5));
        assertThat(metrics.accuracy()).isCloseTo(reference.accuracy(), within(1e-9));
        assertThat(metrics.evalLoss()).isCloseTo(reference.evalLoss(), within(1e-5));
        assertThat(metrics.evalAccuracy()).isCloseTo(reference.evalAccuracy(), within(1e-9));
        assertThat(metrics.rows()).isEqualTo(WEIGHTS.length);
      }
    }
    assertThat(results.get(0).parameters())
        .usingComparatorWithPrecision(1e-5f)
        .containsExactly(expected.parameters());
  }

  /** Rank 1 goes on alone after its peer's rows are used up; both divisors give the same mean. */
  @ParameterizedTest
  @MethodSource("uneven")
  void ranksThatRanOutDoNotWaterTheMeanDown(UnevenInputs uneven) {
    Result expected = alone(new int[][] {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {10, 11, 12, 13}});
    DdpOptions options = DdpOptions.builder().unevenInputs(uneven).build();
    int[][][] batches = {{{0, 1, 2, 3, 4, 5, 6}}, {{7, 8, 9}, {10, 11, 12, 13}}};
    List<Result> results =
        RankThreads.collect(
            2,
            communicator ->
                fit(
                    new StrategySpec.Ddp(2, options),
                    communicator,
                    1,
                    new Rows(batches[communicator.rank()], true)));
    for (int epoch = 0; epoch < 2; epoch++) {
      assertThat(results.get(1).epochs().get(epoch).loss())
          .isEqualTo(results.get(0).epochs().get(epoch).loss())
          .isCloseTo(expected.epochs().get(epoch).loss(), within(1e-5));
    }
    assertThat(results.get(0).parameters())
        .usingComparatorWithPrecision(1e-5f)
        .containsExactly(expected.parameters());
  }

  static Stream<UnevenInputs> uneven() {
    return Stream.of(UnevenInputs.DIVIDE_BY_WORLD, UnevenInputs.DIVIDE_BY_ACTIVE);
  }

  @Test
  void weightsThatAreAllZeroEndTheTraining() {
    assertThatThrownBy(
            () ->
                fit(
                    new StrategySpec.None(0),
                    new LocalCommunicator(),
                    1,
                    new Rows(new int[][] {{1, 6, 10}}, true)))
        .isInstanceOf(TrainingException.class)
        .hasMessageContaining("expected a weight above 0 in some training row, got 0 in all 3");
  }

  private record Result(List<EpochMetrics> epochs, float[] parameters) {}

  private static Result alone(int[][] batches) {
    int[][] repeated =
        Stream.of(batches)
            .map(
                batch ->
                    IntStream.of(batch)
                        .flatMap(row -> IntStream.generate(() -> row).limit(WEIGHTS[row]))
                        .toArray())
            .toArray(int[][]::new);
    return fit(new StrategySpec.None(0), new LocalCommunicator(), 1, new Rows(repeated, false));
  }

  private static Result fit(
      StrategySpec spec, Communicator communicator, int accumulate, Rows rows) {
    try (ParallelStrategy strategy =
            Strategies.create(spec, TestWeightedTraining::model, communicator);
        var optimizer =
            OptimizerSpec.sgd().lr(0.3).momentum(0.9).build().create(strategy.trainable())) {
      List<EpochMetrics> epochs =
          new Trainer(
                  strategy,
                  optimizer,
                  ScheduleSpec.constant(),
                  Losses.CROSS_ENTROPY,
                  new TrainingOptions(2, accumulate, 1.0, null, 3),
                  new TrainingListener() {})
              .fit(rows, rows);
      try (var scope = NativeScope.open()) {
        var state = new TreeMap<>(strategy.fullState());
        float[] all = new float[0];
        for (Tensor tensor : state.values()) {
          float[] values = Tensors.toFloats(tensor);
          float[] longer = java.util.Arrays.copyOf(all, all.length + values.length);
          System.arraycopy(values, 0, longer, all.length, values.length);
          all = longer;
        }
        // The model comes together on rank 0 only.
        return new Result(epochs, all);
      }
    }
  }

  private static Block model() {
    Rng.seed(5);
    return new Mlp(FEATURES, List.of(5), 2);
  }

  private record Rows(int[][] batches, boolean isWeighted) implements BatchSource {
    @Override
    public int batchesPerEpoch() {
      return batches.length;
    }

    @Override
    public int batchRows() {
      return 4;
    }

    @Override
    public Iterator<TensorBatch> epoch(int epoch) {
      return Stream.of(batches).map(this::batch).iterator();
    }

    private TensorBatch batch(int[] rows) {
      float[] x = new float[rows.length * FEATURES];
      long[] y = new long[rows.length];
      float[] weights = new float[rows.length];
      for (int i = 0; i < rows.length; i++) {
        y[i] = rows[i] % 3 == 0 ? 1 : 0;
        weights[i] = WEIGHTS[rows[i]];
        for (int j = 0; j < FEATURES; j++) {
          x[i * FEATURES + j] = (float) Math.sin(rows[i] * 12.9898 + j * 78.233);
        }
      }
      return new TensorBatch(
          List.of(Tensors.of(x, rows.length, FEATURES)),
          Tensors.of(y, rows.length),
          isWeighted ? Tensors.of(weights, rows.length) : null,
          rows.length);
    }
  }
}
