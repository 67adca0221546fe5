package io.sparktrainer.data;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.BitSet;
import java.util.Random;
import org.junit.jupiter.api.Test;

class TestEpochOrder {
  @Test
  void permutationsAreBijectionsAndKnowTheirInverse() {
    for (int size = 1; size < 300; size++) {
      Permutation permutation = new Permutation(size, size * 31L);
      BitSet seen = new BitSet(size);
      for (int place = 0; place < size; place++) {
        long number = permutation.at(place);
        assertThat(number).isBetween(0L, size - 1L);
        seen.set((int) number);
        assertThat(permutation.placeOf(number)).isEqualTo(place);
      }
      assertThat(seen.cardinality()).isEqualTo(size);
    }
  }

  @Test
  void everyNumberIsAboutAsLikelyAtEveryPlace() {
    int size = 10;
    int seeds = 20_000;
    int[][] counts = new int[size][size];
    for (int seed = 0; seed < seeds; seed++) {
      Permutation permutation = new Permutation(size, seed);
      for (int place = 0; place < size; place++) {
        counts[place][(int) permutation.at(place)]++;
      }
    }
    double expected = (double) seeds / size;
    double chiSquare = 0;
    for (int[] row : counts) {
      for (int count : row) {
        chiSquare += (count - expected) * (count - expected) / expected;
      }
    }
    // 81 degrees of freedom: 140 is beyond the 99.99th percentile
    assertThat(chiSquare).isLessThan(140);
  }

  @Test
  void twoLevelsReadEveryRowOnceWhateverTheSizes() {
    Random random = new Random(1);
    for (int trial = 0; trial < 500; trial++) {
      int rows = 1 + random.nextInt(500);
      EpochOrder.Rule rule =
          new EpochOrder.Rule(true, 1 + random.nextInt(20), 1 + random.nextInt(10));
      EpochOrder order = new EpochOrder(rule, rows, trial, 0, 0);
      BitSet seen = new BitSet(rows);
      for (int place = 0; place < rows; place++) {
        seen.set((int) order.at(place));
      }
      assertThat(seen.cardinality()).as("%s over %d rows", rule, rows).isEqualTo(rows);
    }
  }

  /**
   * How good two levels are: with 1,000 blocks, a window of 64, the mean distance that a row moves
   * is that of a uniform shuffle (a third of the rows), and a batch of 256 rows comes from about as
   * many blocks as there are in the window.
   */
  @Test
  void twoLevelsMoveRowsAsFarAsAUniformShuffle() {
    int rows = 1_000_000;
    EpochOrder order = new EpochOrder(new EpochOrder.Rule(true, 1000, 64), rows, 3, 1, 0);
    double moved = 0;
    for (int place = 0; place < rows; place++) {
      moved += Math.abs(order.at(place) - place);
    }
    assertThat(moved / rows / rows).isBetween(0.30, 0.37);
    BitSet blocks = new BitSet();
    for (int place = 500_000; place < 500_256; place++) {
      blocks.set((int) (order.at(place) / 1000));
    }
    assertThat(blocks.cardinality()).isBetween(50, 64);
  }
}
