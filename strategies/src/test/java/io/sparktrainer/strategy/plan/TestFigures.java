package io.sparktrainer.strategy.plan;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

class TestFigures {
  @Test
  void bytesAndCountsGetAUnit() {
    assertThat(Figures.bytes(0)).isEqualTo("0 B");
    assertThat(Figures.bytes(1023)).isEqualTo("1023 B");
    assertThat(Figures.bytes(1536)).isEqualTo("1.50 KiB");
    assertThat(Figures.bytes(1L << 40)).isEqualTo("1.00 TiB");
    assertThat(Figures.count(999)).isEqualTo("999");
    assertThat(Figures.count(68_980_000_000L)).isEqualTo("68.98 billion");
  }
}
