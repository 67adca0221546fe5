package io.sparktrainer.data;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class TestSplitRule {
  private static final int ROWS = 10_000;

  @ParameterizedTest
  @ValueSource(doubles = {0.1, 0.25, 0.3, 1.0 / 3, 0.5, 0.7, 0.99, 0.001})
  void takesExactlyItsShareOfEveryPartition(double fraction) {
    for (int partition = 0; partition < 3; partition++) {
      assertThat((double) count(new SplitRule(fraction, 7), partition))
          .isBetween(fraction * ROWS - 1, fraction * ROWS + 1);
    }
  }

  @Test
  void holdsOutATenthOfTenThousandRowsToTheRow() {
    assertThat(count(new SplitRule(0.1, 7), 0)).isEqualTo(1000);
  }

  @Test
  void differsBySeedAndPartitionAndIsRepeatable() {
    assertThat(chosen(new SplitRule(0.1, 7), 0))
        .isEqualTo(chosen(new SplitRule(0.1, 7), 0))
        .isNotEqualTo(chosen(new SplitRule(0.1, 8), 0))
        .isNotEqualTo(chosen(new SplitRule(0.1, 7), 1));
  }

  @Test
  void theEndsTakeNothingAndEverything() {
    assertThat(count(SplitRule.TRAINING_ONLY, 0)).isZero();
    assertThat(count(SplitRule.VALIDATION_ONLY, 0)).isEqualTo(ROWS);
  }

  private static long count(SplitRule rule, int partition) {
    return chosen(rule, partition).length;
  }

  private static long[] chosen(SplitRule rule, int partition) {
    return LongStream.range(0, ROWS).filter(row -> rule.isValidation(partition, row)).toArray();
  }
}
