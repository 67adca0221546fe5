package io.sparktrainer.strategy.fsdp;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class TestFlatLayout {
  private static final List<Long> NUMELS = List.of(7L, 0L, 33L, 1L, 16L, 0L);

  @Test
  void alignsParametersAndPadsShards() {
    FlatLayout layout = new FlatLayout(NUMELS, 3);
    assertThat(layout.offset(0)).isZero();
    assertThat(layout.offset(2)).isEqualTo(8);
    assertThat(layout.offset(3)).isEqualTo(48);
    assertThat(layout.offset(4)).isEqualTo(56);
    assertThat(layout.shardNumel()).isEqualTo(24);
    assertThat(layout.paddedNumel()).isEqualTo(72);
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3, 4, 5, 8, 71, 100})
  void slicesCoverEveryParameterOnce(int shards) {
    FlatLayout layout = new FlatLayout(NUMELS, shards);
    for (int i = 0; i < NUMELS.size(); i++) {
      long next = 0;
      for (int shard = 0; shard < shards; shard++) {
        FlatLayout.Slice slice = layout.slice(i, shard);
        if (slice.length() > 0) {
          assertThat(slice.offsetInParameter()).isEqualTo(next);
          assertThat(layout.offset(i) + slice.offsetInParameter())
              .isEqualTo(shard * layout.shardNumel() + slice.offsetInShard());
          assertThat(slice.offsetInShard() + slice.length())
              .isLessThanOrEqualTo(layout.shardNumel());
          next += slice.length();
        }
      }
      assertThat(next).isEqualTo(NUMELS.get(i));
      assertThat(layout.offset(i) + layout.numel(i)).isLessThanOrEqualTo(layout.paddedNumel());
    }
  }

  @Test
  void paddingIsLessThanOneElementPerShardAndEightPerParameter() {
    FlatLayout layout = new FlatLayout(List.of(391L), 4);
    assertThat(layout.shardNumel()).isEqualTo(98);
    assertThat(layout.paddedNumel()).isEqualTo(392);
  }

  @Test
  void holdsNothingWhereThereIsNothing() {
    FlatLayout layout = new FlatLayout(List.of(0L, 0L), 4);
    assertThat(layout.paddedNumel()).isZero();
    assertThat(layout.slice(1, 3).length()).isZero();
  }

  @ParameterizedTest
  @CsvSource({
    "1, 1, 1",
    "2, 2, 1",
    "3, 2, 1.5",
    "4, 2, 2",
    "6, 4, 1.5",
    "8, 4, 2",
    "16, 4, 4",
    "64, 8, 8"
  })
  void dividesFloat16InTwoSteps(int ranks, double before, double after) {
    assertThat(DivideFactors.of(ranks)).isEqualTo(new DivideFactors(before, after));
  }
}
