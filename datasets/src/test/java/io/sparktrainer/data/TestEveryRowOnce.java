package io.sparktrainer.data;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * Random worlds, seeds, partition sizes, memory budgets and resume points: every row is read
 * exactly once in an epoch, however often the epoch is broken off and resumed by another world.
 */
class TestEveryRowOnce {
  private static final int TRIALS = 400;

  @TempDir Path folder;

  private static FakeFrame frame(Random random, int worldSize) {
    int[] rows = new int[worldSize + random.nextInt(8)];
    for (int p = 0; p < rows.length; p++) {
      rows[p] = random.nextInt(4) == 0 ? 0 : random.nextInt(30);
    }
    rows[random.nextInt(rows.length)] += 5 + random.nextInt(200);
    return new FakeFrame(rows);
  }

  private DataSpec spec(Random random, Balance balance, long seed, DataSpec.Order order) {
    return FakeFrame.spec(folder)
        .balance(balance)
        .batchRows(1 + random.nextInt(12))
        .seed(seed)
        .order(order)
        .memoryBudgetBytes(random.nextBoolean() ? 1 << 20 : 256 + random.nextInt(2000))
        .build();
  }

  private static List<Long> take(BatchReader reader, long steps) {
    List<Long> labels = new ArrayList<>();
    for (long step = 0; step < steps; step++) {
      Batch batch = reader.next();
      for (int i = 0; i < batch.rows(); i++) {
        long label = batch.label().data().getLong(i * Long.BYTES);
        assertThat(batch.input("features").data().getFloat(i * Float.BYTES))
            .isEqualTo((float) label);
        labels.add(label);
      }
    }
    return labels;
  }

  /** Reads steps in a world; gives the position after them, the same on all ranks. */
  private static DataPosition read(
      Ranks ranks, DataPosition from, int epoch, double share, List<Long> seen) {
    DataPosition after = null;
    for (RankData rank : ranks.ranks) {
      RankShare training = rank.training();
      try (BatchReader reader = from == null ? training.epoch(epoch) : training.resume(from)) {
        seen.addAll(take(reader, (long) (reader.remainingSteps() * share)));
        DataPosition position = DataPosition.parse(reader.position().toText());
        assertThat(after == null || after.equals(position)).isTrue();
        after = position;
      }
    }
    return after;
  }

  @Test
  void acrossWorldsSeedsBudgetsAndResumePoints() {
    for (int trial = 0; trial < TRIALS; trial++) {
      Random random = new Random(trial);
      Balance balance = random.nextBoolean() ? Balance.REPARTITION : Balance.JOIN;
      DataSpec.Order order =
          random.nextInt(4) == 0 ? DataSpec.Order.SEQUENTIAL : DataSpec.Order.SHUFFLED;
      int worlds = 1 + random.nextInt(3);
      FakeFrame frame = frame(random, 5);
      int epoch = random.nextInt(4);
      long seed = random.nextLong();
      List<Long> seen = new ArrayList<>();
      DataPosition position = null;
      for (int world = 0; world < worlds; world++) {
        double share = world == worlds - 1 ? 1 : random.nextDouble();
        DataSpec spec = spec(random, balance, seed, order);
        try (Ranks ranks = frame.ranks(spec, 1 + random.nextInt(5))) {
          position = read(ranks, position, epoch, share, seen);
        }
      }
      assertThat(seen).as("trial %d", trial).containsExactlyInAnyOrderElementsOf(frame.labels());
    }
  }

  @Test
  void resumesInTheSameWorldWithTheVeryBatchesThatWouldHaveCome() {
    for (int trial = 0; trial < TRIALS / 4; trial++) {
      Random random = new Random(trial);
      List<Balance> all = List.of(Balance.values());
      Balance balance = all.get(random.nextInt(all.size()));
      FakeFrame frame = new FakeFrame(40, 7, 90, 33, 5);
      int worldSize = 1 + random.nextInt(4);
      DataSpec spec = spec(random, balance, trial, DataSpec.Order.SHUFFLED);
      try (Ranks ranks = frame.ranks(spec, worldSize)) {
        for (RankData rank : ranks.ranks) {
          RankShare training = rank.training();
          List<Long> whole;
          try (BatchReader reader = training.epoch(2)) {
            whole = take(reader, reader.steps());
          }
          List<Long> parts = new ArrayList<>();
          DataPosition position;
          try (BatchReader reader = training.epoch(2)) {
            parts.addAll(take(reader, random.nextInt((int) reader.steps() + 1)));
            position = reader.position();
          }
          try (BatchReader reader = training.resume(position)) {
            parts.addAll(take(reader, reader.remainingSteps()));
            assertThat(reader.hasNext()).isFalse();
          }
          assertThat(parts).as("trial %d", trial).isEqualTo(whole);
        }
      }
    }
  }

  @Test
  void padRepeatsAndDropLeavesOutButNoRowComesTwiceWithoutNeed() {
    for (int trial = 0; trial < TRIALS / 4; trial++) {
      Random random = new Random(trial);
      FakeFrame frame = new FakeFrame(20, 3 + random.nextInt(30), 1 + random.nextInt(50));
      for (Balance balance : List.of(Balance.PAD, Balance.DROP)) {
        try (Ranks ranks = frame.ranks(spec(random, balance, trial, DataSpec.Order.SHUFFLED), 3)) {
          List<Long> seen = new ArrayList<>();
          read(ranks, null, 0, 1, seen);
          EpochPlan plan = ranks.ranks.get(0).training().plan();
          long most = Math.max(plan.rows(0), Math.max(plan.rows(1), plan.rows(2)));
          long least = Math.min(plan.rows(0), Math.min(plan.rows(1), plan.rows(2)));
          if (balance == Balance.PAD) {
            assertThat(seen).hasSize((int) most * 3).containsAll(frame.labels());
          } else {
            assertThat(seen).hasSize((int) least * 3).doesNotHaveDuplicates();
          }
        }
      }
    }
  }

  @Test
  void refusesAPositionOfOtherDataOrAnotherSeed() {
    DataSpec spec = FakeFrame.spec(folder).build();
    try (Ranks ranks = new FakeFrame(10, 20).ranks(spec, 1);
        Ranks other = new FakeFrame(10, 21).ranks(spec, 1);
        Ranks seeded = new FakeFrame(10, 20).ranks(spec.toBuilder().seed(5).build(), 1)) {
      DataPosition position;
      try (BatchReader reader = ranks.ranks.get(0).training().epoch(0)) {
        position = reader.position();
      }
      assertThatThrownBy(() -> other.ranks.get(0).training().resume(position))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessageContaining("to hold [10, 20] rows, got [10, 21]");
      assertThatThrownBy(() -> seeded.ranks.get(0).training().resume(position))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessageContaining("expected seed 0, got 5");
    }
    assertThatThrownBy(() -> DataPosition.parse("1;2;x"))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("got '1;2;x'");
  }
}
