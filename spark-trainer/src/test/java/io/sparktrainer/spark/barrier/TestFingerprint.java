package io.sparktrainer.spark.barrier;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.spark.resource.RankGpus;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class TestFingerprint {
  @Test
  void packedTextReadsBackAndIsSmall() {
    Fingerprint fingerprint =
        new Fingerprint(
            IntStream.range(0, 1200)
                .mapToObj("block.%d.attention.weight: float32[768, 768]"::formatted)
                .toList());

    String packed = fingerprint.pack();

    assertThat(Fingerprint.unpack(packed)).isEqualTo(fingerprint);
    assertThat(packed.length()).isLessThan(10_000);
  }

  @Test
  void theFirstDifferenceIsNamed() {
    Fingerprint first = new Fingerprint(List.of("a", "b", "c"));

    assertThat(first.firstDifference(first)).isNull();
    assertThat(first.firstDifference(new Fingerprint(List.of("a", "x", "y"))))
        .isEqualTo("\"b\" against \"x\"");
    assertThat(first.firstDifference(new Fingerprint(List.of("a", "b"))))
        .isEqualTo("\"c\" against \"nothing\"");
  }

  @Test
  void ranksThatDifferAllFail() {
    String one = facts(0, new Fingerprint(List.of("lr: 1")).pack()).toJson();
    String two = facts(1, new Fingerprint(List.of("lr: 2")).pack()).toJson();

    for (int rank = 0; rank < 2; rank++) {
      RankFacts mine = RankFacts.parse(rank == 0 ? one : two);
      assertThatThrownBy(() -> Meeting.hold(mine, text -> new String[] {one, two}))
          .isInstanceOf(IllegalStateException.class)
          .hasMessageContaining(
              "\"lr: 1\" against \"lr: 2\" on ranks 0 and 1 (rank %d of 2)", rank);
    }
    assertThat(Meeting.hold(RankFacts.parse(one), text -> new String[] {text, text})).hasSize(2);
  }

  @Test
  void factsKeepTheSecretOutOfLogs() {
    assertThat(facts(0, "").toString()).doesNotContain("hidden").contains("rank 0 on host");
  }

  private static RankFacts facts(int rank, String fingerprint) {
    RankGpus none = RankGpus.none("no driver");
    return new RankFacts(
        rank, "host", "1", 42, "cpu", none, 1, 10, fingerprint, 5, "hidden", "hidden id");
  }
}
