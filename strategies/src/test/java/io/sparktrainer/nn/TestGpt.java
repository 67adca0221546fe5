package io.sparktrainer.nn;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import io.sparktrainer.checkpoint.Safetensors;
import io.sparktrainer.testing.Golden;
import io.sparktrainer.testing.Values;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Rng;
import io.sparktrainer.torch.Tensors;
import java.io.IOException;
import java.util.Arrays;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** What the golden cases do not show; values and gradients are theirs. */
class TestGpt {
  private NativeScope scope;

  @BeforeEach
  void open() {
    scope = NativeScope.open();
    Rng.seed(1);
  }

  @AfterEach
  void close() {
    scope.close();
  }

  private static GptConfig.Builder small() {
    return GptConfig.builder().vocab(65).context(16).width(32).heads(4).layers(3);
  }

  @Test
  void namesAndShapesArePyTorchs() throws IOException {
    for (boolean tied : new boolean[] {false, true}) {
      String name = tied ? "ddp2-gpt-tied-clip" : "none-gpt-adam";
      Map<String, Tensor> golden =
          Safetensors.read(Golden.folder().resolve(name).resolve("init.safetensors"));
      try (Gpt gpt = new Gpt(small().tied(tied).build())) {
        assertThat(gpt.state().keySet()).isEqualTo(golden.keySet());
        golden.forEach(
            (key, tensor) ->
                assertThat(Tensors.describe(gpt.state().get(key)))
                    .as(key)
                    .isEqualTo(Tensors.describe(tensor)));
      }
    }
  }

  @Test
  void tokensDoNotSeeWhatComesLater() {
    try (Gpt gpt = new Gpt(small().build())) {
      Tensor tokens = Tensors.of(new long[] {1, 2, 3, 4, 5, 6}, 1, 6);
      Tensor changed = Tensors.of(new long[] {1, 2, 3, 4, 60, 61}, 1, 6);
      Tensor before = gpt.call(tokens);
      Tensor after = gpt.call(changed);
      assertThat(Tensors.shape(before)).containsExactly(1, 6, 65);
      assertThat(Values.of(after.narrow(1, 0, 4)))
          .containsExactly(Values.of(before.narrow(1, 0, 4)), within(1e-6));
      assertThat(Values.of(after.narrow(1, 4, 1))).isNotEqualTo(Values.of(before.narrow(1, 4, 1)));
    }
  }

  @Test
  void startsWithGpt2sDeviations() {
    try (Gpt gpt = new Gpt(small().width(128).vocab(500).build())) {
      Map<String, Tensor> state = gpt.state();
      assertThat(deviation(state.get("wte.weight"))).isCloseTo(0.02, within(1e-3));
      assertThat(deviation(state.get("blocks.1.attn.qkv.weight"))).isCloseTo(0.02, within(1e-3));
      assertThat(deviation(state.get("blocks.1.out.weight")))
          .isCloseTo(0.02 / Math.sqrt(6), within(1e-3));
      assertThat(Values.of(state.get("blocks.1.fc.bias"))).containsOnly(0);
      // untrained, every token is about equally likely
      Tensor loss =
          Losses.CROSS_ENTROPY.of(
              gpt.call(Tensors.of(new long[] {1, 2, 3}, 1, 3)),
              Tensors.of(new long[] {2, 3, 4}, 1, 3));
      assertThat(loss.item_double()).isCloseTo(Math.log(500), within(0.3));
    }
  }

  private static double deviation(Tensor tensor) {
    return Math.sqrt(
        Arrays.stream(Values.of(tensor)).map(value -> value * value).average().orElse(0));
  }

  /** The path with dropout computes attention itself; without dropped weights it must agree. */
  @Test
  void bothPathsOfAttentionAgree() {
    Rng.seed(3);
    try (Gpt plain = new Gpt(small().build());
        Gpt dropping = new Gpt(small().dropout(1e-12).build())) {
      plain.state().forEach((name, value) -> Tensors.overwrite(dropping.state().get(name), value));
      Tensor tokens = Tensors.of(new long[] {1, 2, 3, 4, 5, 6}, 1, 6);
      assertThat(Values.of(dropping.call(tokens)))
          .containsExactly(Values.of(plain.call(tokens)), within(1e-5));
    }
  }

  @Test
  void dropoutIsRepeatableAndOffInEvaluation() {
    try (Gpt gpt = new Gpt(small().dropout(0.5).build())) {
      Tensor tokens = Tensors.of(new long[] {1, 2, 3, 4}, 1, 4);
      Rng.seed(5);
      double[] first = Values.of(gpt.call(tokens));
      assertThat(Values.of(gpt.call(tokens))).isNotEqualTo(first);
      Rng.seed(5);
      assertThat(Values.of(gpt.call(tokens))).containsExactly(first);
      gpt.eval();
      assertThat(Values.of(gpt.call(tokens))).containsExactly(Values.of(gpt.call(tokens)));
    }
  }

  @Test
  void inputsAndSizesAreChecked() {
    try (Gpt gpt = new Gpt(small().build())) {
      assertThatThrownBy(() -> gpt.call(Tensors.of(new long[17], 1, 17)))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessage(
              "Cannot run a gpt: expected token numbers [n, tokens] with at most 16 tokens, got int64[1, 17] on cpu. Cut the sequences, or make the context longer.");
      assertThatThrownBy(() -> gpt.call(Tensors.of(new long[4], 4)))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessageContaining("got int64[4] on cpu");
    }
    assertThatThrownBy(() -> small().heads(5).build())
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("Cannot make a gpt: expected a width that is a multiple of 5 heads, got 32.");
    assertThatThrownBy(() -> small().layers(0).build())
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("layers 0");
    assertThatThrownBy(() -> small().dropout(1).build())
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("Cannot make a gpt: expected dropout in [0, 1), got 1.0.");
  }
}
