package io.sparktrainer.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import io.sparktrainer.comm.LocalCommunicator;
import io.sparktrainer.comm.testing.RankThreads;
import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.Loss;
import io.sparktrainer.nn.Losses;
import io.sparktrainer.nn.Mlp;
import io.sparktrainer.optim.OptimizerSpec;
import io.sparktrainer.optim.ScheduleSpec;
import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.strategy.ParallelStrategy;
import io.sparktrainer.strategy.StrategySpec;
import io.sparktrainer.strategy.UnevenInputs;
import io.sparktrainer.torch.Rng;
import io.sparktrainer.torch.Tensors;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

class TestTrainer {
  private static final int FEATURES = 4;
  private static final int CLASSES = 3;

  @Test
  void learnsAndReportsTheSameEpochsOnEveryRank() {
    List<List<EpochMetrics>> byRank = new ArrayList<>(List.of(List.of(), List.of()));
    RankThreads.runConnected(
        2,
        communicator -> {
          StrategySpec spec = new StrategySpec.Ddp(2, DdpOptions.defaults());
          try (var strategy = Strategies.create(spec, TestTrainer::model, communicator)) {
            List<EpochMetrics> epochs =
                fit(strategy, options(5, 1), rows(communicator.rank(), 40, 8), rows(7, 12, 8));
            synchronized (byRank) {
              byRank.set(communicator.rank(), epochs);
            }
          }
        });
    List<EpochMetrics> epochs = byRank.get(0);
    assertThat(epochs).hasSize(5).extracting(EpochMetrics::rows).containsOnly(80L);
    assertThat(epochs.get(4).loss()).isLessThan(0.5 * epochs.get(0).loss());
    assertThat(epochs.get(4).evalAccuracy()).isGreaterThan(0.9);
    for (int i = 0; i < 5; i++) {
      EpochMetrics other = byRank.get(1).get(i);
      assertThat(other.loss()).isEqualTo(epochs.get(i).loss());
      assertThat(other.accuracy()).isEqualTo(epochs.get(i).accuracy());
      assertThat(other.evalLoss()).isEqualTo(epochs.get(i).evalLoss());
    }
  }

  @Test
  void accumulatingEqualsTheLargerBatch() {
    List<Double> losses = new ArrayList<>();
    for (int accumulate : new int[] {1, 4}) {
      try (var strategy = alone()) {
        int batch = 16 / accumulate;
        losses.add(fit(strategy, options(3, accumulate), rows(0, 64, batch), null).get(2).loss());
      }
    }
    assertThat(losses.get(1)).isCloseTo(losses.get(0), within(1e-5));
  }

  @Test
  void theLastStepOfAnEpochTakesWhatIsLeft() {
    List<StepMetrics> steps = new ArrayList<>();
    TrainingListener listener =
        new TrainingListener() {
          @Override
          public void onStep(StepMetrics step) {
            steps.add(step);
          }
        };
    try (var strategy = alone()) {
      fit(strategy, options(1, 3), rows(0, 35, 8), null, listener);
    }
    assertThat(steps).extracting(StepMetrics::rows).containsExactly(24, 11);
    assertThat(steps).extracting(StepMetrics::stepsPerEpoch).containsOnly(2);
  }

  @Test
  void differentNumbersOfBatchesFailOnEveryRankInsteadOfHanging() {
    RankThreads.runConnected(
        2,
        communicator -> {
          StrategySpec spec = new StrategySpec.Ddp(2, DdpOptions.defaults());
          try (var strategy = Strategies.create(spec, TestTrainer::model, communicator)) {
            int rows = communicator.rank() == 0 ? 16 : 24;
            assertThatThrownBy(
                    () -> fit(strategy, options(1, 1), rows(communicator.rank(), rows, 8), null))
                .isInstanceOf(TrainingException.class)
                .hasMessageContainingAll(
                    "the same number of batches", "got 2 to 3", "epoch 0, step 0")
                .hasMessageContaining("rank " + communicator.rank() + " of 2");
          }
        });
  }

  @Test
  void unevenInputsTrainTheSameModelOnEveryRank() {
    List<List<Double>> results =
        RankThreads.collect(
            2,
            communicator -> {
              DdpOptions uneven =
                  DdpOptions.builder().unevenInputs(UnevenInputs.DIVIDE_BY_ACTIVE).build();
              StrategySpec spec = new StrategySpec.Ddp(2, uneven);
              try (var strategy = Strategies.create(spec, TestTrainer::model, communicator)) {
                int rows = communicator.rank() == 0 ? 16 : 40;
                List<EpochMetrics> epochs =
                    fit(
                        strategy,
                        options(3, 2),
                        rows(communicator.rank(), rows, 8),
                        rows(7, 16, 8));
                assertThat(epochs.get(0).rows()).isEqualTo(56);
                return epochs.stream()
                    .flatMap(epoch -> Stream.of(epoch.loss(), epoch.evalLoss()))
                    .toList();
              }
            });
    assertThat(results.get(1)).isEqualTo(results.get(0));
    assertThat(results.get(0).get(4)).isLessThan(results.get(0).get(0));
  }

  @Test
  void aLossThatIsNotFiniteStopsTheTrainingWithItsPlace() {
    try (var strategy = alone()) {
      Loss exploding = (output, target) -> output.sum().mul(Tensors.scalar(Double.NaN));
      Trainer trainer = trainer(strategy, options(1, 1), exploding, new TrainingListener() {});
      assertThatThrownBy(() -> trainer.fit(rows(0, 16, 8), null))
          .isInstanceOf(TrainingException.class)
          .hasMessageContainingAll("the loss is NaN", "Lower the learning rate", "step 0");
    }
  }

  private static ParallelStrategy alone() {
    return Strategies.create(new StrategySpec.None(0), TestTrainer::model, new LocalCommunicator());
  }

  private static List<EpochMetrics> fit(
      ParallelStrategy strategy,
      TrainingOptions options,
      BatchSource train,
      @Nullable BatchSource evaluation) {
    return fit(strategy, options, train, evaluation, new TrainingListener() {});
  }

  private static List<EpochMetrics> fit(
      ParallelStrategy strategy,
      TrainingOptions options,
      BatchSource train,
      @Nullable BatchSource evaluation,
      TrainingListener listener) {
    return trainer(strategy, options, Losses.CROSS_ENTROPY, listener).fit(train, evaluation);
  }

  private static Trainer trainer(
      ParallelStrategy strategy, TrainingOptions options, Loss loss, TrainingListener listener) {
    return new Trainer(
        strategy,
        OptimizerSpec.sgd().lr(0.2).momentum(0.9).build().create(strategy.trainable()),
        ScheduleSpec.constant(),
        loss,
        options,
        listener);
  }

  private static TrainingOptions options(int epochs, int accumulate) {
    return new TrainingOptions(epochs, accumulate, 5.0, null, 3);
  }

  private static Block model() {
    Rng.seed(5);
    return new Mlp(FEATURES, List.of(16), CLASSES);
  }

  /** Rows whose class is the largest of the first three features. */
  private static BatchSource rows(int share, int rows, int batchSize) {
    return new BatchSource() {
      @Override
      public int batchesPerEpoch() {
        return (rows + batchSize - 1) / batchSize;
      }

      @Override
      public Iterator<TensorBatch> epoch(int epoch) {
        return IntStream.range(0, batchesPerEpoch()).mapToObj(this::batch).iterator();
      }

      private TensorBatch batch(int index) {
        int size = Math.min(batchSize, rows - index * batchSize);
        float[] x = new float[size * FEATURES];
        long[] y = new long[size];
        for (int i = 0; i < size; i++) {
          int row = share * 1000 + index * batchSize + i;
          y[i] = row % CLASSES;
          for (int j = 0; j < FEATURES; j++) {
            x[i * FEATURES + j] = (float) Math.sin(row * 12.9898 + j * 78.233) * 0.5f;
          }
          x[i * FEATURES + (int) y[i]] += 2;
        }
        return new TensorBatch(List.of(Tensors.of(x, size, FEATURES)), Tensors.of(y, size), size);
      }
    };
  }
}
