package io.sparktrainer.nn;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.nn.CheckpointedBlocks.Borrowing;
import io.sparktrainer.nn.CheckpointedBlocks.Fragile;
import io.sparktrainer.nn.CheckpointedBlocks.Gate;
import io.sparktrainer.nn.CheckpointedBlocks.Gated;
import io.sparktrainer.nn.CheckpointedBlocks.Layer;
import io.sparktrainer.nn.CheckpointedBlocks.Partial;
import io.sparktrainer.nn.CheckpointedBlocks.Tied;
import io.sparktrainer.testing.Stack;
import io.sparktrainer.torch.Autocast;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.Gradients;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Rng;
import io.sparktrainer.torch.Tensors;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;
import org.bytedeco.pytorch.BoolOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorArrayRefOptional;
import org.junit.jupiter.api.Test;

class TestActivationCheckpointing {
  private static final CheckpointPolicy LAYERS = CheckpointPolicy.ofClasses(Set.of(Layer.class));

  @Test
  void gradientsAndLossAreThoseOfThePlainRun() {
    assertSame(() -> CheckpointedBlocks.stack(3), LAYERS, model -> model.call(input(4, 6, 1)));
  }

  @Test
  void theWholeModelCanBeOneBlock() {
    assertSame(
        () -> CheckpointedBlocks.stack(3),
        (name, block) -> name.isEmpty(),
        model -> model.call(input(4, 6, 1)));
  }

  @Test
  void chosenBlocksInsideChosenBlocksWork() {
    assertSame(
        () -> CheckpointedBlocks.stack(3),
        (name, block) -> name.isEmpty() || block instanceof Layer || block instanceof Linear,
        model -> model.call(input(4, 6, 1)));
  }

  @Test
  void aBlockCalledTwiceGetsTheSumOfBothGradients() {
    assertSame(
        () -> new Layer(6),
        (name, block) -> true,
        model -> model.call(model.call(input(4, 6, 1)).mul(input(4, 6, 2))));
  }

  @Test
  void twoForwardsBeforeOneBackwardWork() {
    assertSame(
        () -> CheckpointedBlocks.stack(3),
        LAYERS,
        model -> model.call(input(4, 6, 1)).add(model.call(input(4, 6, 2))));
  }

  @Test
  void inputsThatRequireGradientsGetThem() {
    float[][] gradients = new float[2][];
    for (int i = 0; i < 2; i++) {
      try (var scope = NativeScope.open();
          var model = stack(3)) {
        if (i == 1) {
          ActivationCheckpointing.install(model, LAYERS);
        }
        Tensor x = input(4, 6, 1).set_requires_grad(true);
        Rng.seed(5);
        // The input itself is in the outer graph too.
        model.call(x).mul(x.sum()).sum().backward();
        gradients[i] = Tensors.toFloats(x.grad());
      }
    }
    assertThat(gradients[1]).usingComparatorWithPrecision(1e-5f).containsExactly(gradients[0]);
  }

  @Test
  void severalInputsSomeWithoutGradientWork() {
    assertSame(
        Gated::new,
        (name, block) -> block instanceof Gate,
        model -> model.call(input(4, 6, 1), Tensors.of(new long[] {0, 1, 1, 0}, 4)));
  }

  @Test
  void batchNormCountsOnce() {
    assertSame(
        () -> new Cnn(1, 8, 8, 16, 3),
        CheckpointPolicy.ofClasses(Set.of(BatchNorm2d.class)),
        model -> model.call(input(4, 64, 1).view(4, 1, 8, 8)));
    assertSame(
        () -> new Cnn(1, 8, 8, 16, 3),
        (name, block) -> name.isEmpty() || name.equals("bn1"),
        model -> model.call(input(4, 64, 1).view(4, 1, 8, 8)));
  }

  @Test
  void parametersTiedInsideAndOutsideAddUp() {
    assertSame(
        Tied::new, (name, block) -> name.equals("inner"), model -> model.call(input(4, 6, 1)));
  }

  @Test
  void parametersThatACallLeavesOutGetNoGradient() {
    try (var scope = NativeScope.open();
        var model = new Partial();
        var checkpointing =
            ActivationCheckpointing.install(model, (name, block) -> name.isEmpty())) {
      model.call(input(4, 6, 1)).sum().backward();
      assertThat(checkpointing.recomputations()).isEqualTo(1);
      assertThat(model.parameters().get("used.weight").grad().defined()).isTrue();
      assertThat(model.parameters().get("idle.weight").grad().defined()).isFalse();
    }
  }

  @Test
  void frozenBlocksAreNotComputedAgain() {
    try (var scope = NativeScope.open();
        var model = stack(3);
        var checkpointing = ActivationCheckpointing.install(model, LAYERS)) {
      model
          .parameters()
          .forEach((name, tensor) -> tensor.set_requires_grad(name.startsWith("layer2")));
      model.call(input(4, 6, 1)).sum().backward();
      assertThat(checkpointing.recomputations()).isEqualTo(1);
      assertThat(model.parameters().get("layer2.linear.weight").grad().defined()).isTrue();
      assertThat(model.parameters().get("layer0.linear.weight").grad().defined()).isFalse();
    }
  }

  @Test
  void autocastRepeats() {
    assertSame(
        () -> CheckpointedBlocks.stack(3),
        LAYERS,
        model -> {
          try (var cast = Autocast.to(DType.BFLOAT16, Device.Type.CPU)) {
            return model.call(input(4, 6, 1));
          }
        });
  }

  @Test
  void anOutputMayBeChangedInPlace() {
    assertSame(
        () -> CheckpointedBlocks.stack(3),
        (name, block) -> name.isEmpty(),
        model -> model.call(input(4, 6, 1)).mul_(input(4, 6, 2)).add_(input(4, 6, 3)));
  }

  @Test
  void nothingIsRecordedWithoutGradients() {
    try (var scope = NativeScope.open();
        var model = stack(3);
        var checkpointing = ActivationCheckpointing.install(model, LAYERS);
        var off = Gradients.off()) {
      assertThat(model.call(input(4, 6, 1)).requires_grad()).isFalse();
      assertThat(checkpointing.waitingCalls()).isZero();
    }
  }

  @Test
  void hooksOnParametersSeeOneGradientPerBackward() {
    try (var scope = NativeScope.open();
        var model = new Layer(6);
        var checkpointing =
            ActivationCheckpointing.install(model, (name, block) -> name.isEmpty())) {
      int[] calls = new int[1];
      var hook =
          new org.bytedeco.pytorch.VoidTensorHook() {
            @Override
            public void call(org.bytedeco.pytorch.TensorBase gradient) {
              calls[0] += Recomputation.isActive() ? 0 : 1;
            }
          };
      model.parameters().get("linear.weight").register_hook(hook);
      model.call(model.call(input(4, 6, 1))).sum().backward();
      assertThat(checkpointing.recomputations()).isEqualTo(2);
      assertThat(calls[0]).isEqualTo(1);
    }
  }

  @Test
  void keepsNothingAfterBackwardOrRelease() {
    try (var scope = NativeScope.open();
        var model = stack(3);
        var checkpointing = ActivationCheckpointing.install(model, LAYERS)) {
      model.call(input(4, 6, 1)).sum().backward();
      assertThat(checkpointing.waitingCalls()).isZero();
      model.call(input(4, 6, 1));
      assertThat(checkpointing.waitingCalls()).isEqualTo(3);
      checkpointing.release();
      assertThat(checkpointing.waitingCalls()).isZero();
    }
  }

  @Test
  void aSecondBackwardFailsByName() {
    try (var scope = NativeScope.open();
        var model = stack(3);
        var checkpointing = ActivationCheckpointing.install(model, LAYERS)) {
      Tensor loss = model.call(input(4, 6, 1)).sum();
      backward(loss, true, false);
      String message =
          "Cannot run backward through block layer2: expected one backward pass per forward pass";
      assertThatThrownBy(() -> backward(loss, true, false)).hasMessageContaining(message);
      checkpointing.release();
      assertThatThrownBy(() -> backward(loss, true, false)).hasMessageContaining(message);
      // Later steps are not disturbed.
      model.call(input(4, 6, 1)).sum().backward();
    }
  }

  @Test
  void secondDerivativesFailByName() {
    try (var scope = NativeScope.open();
        var model = stack(3);
        var checkpointing = ActivationCheckpointing.install(model, LAYERS)) {
      Tensor loss = model.call(input(4, 6, 1)).sum();
      assertThatThrownBy(() -> backward(loss, true, true))
          .hasMessageContaining("Cannot differentiate block layer2 twice");
      assertThat(checkpointing.causeOf(new RuntimeException("other")))
          .isInstanceOf(IllegalStateException.class);
    }
  }

  @Test
  void anInputChangedInPlaceBeforeBackwardFailsByName() {
    try (var scope = NativeScope.open();
        var model = stack(3);
        var checkpointing = ActivationCheckpointing.install(model, LAYERS)) {
      Tensor x = input(4, 6, 1);
      Tensor loss = model.call(x).sum();
      x.add_(Tensors.scalar(1));
      assertThatThrownBy(loss::backward)
          .hasMessageContaining(
              "Cannot checkpoint block layer0: expected its input 0 to keep its values until backward");
    }
  }

  @Test
  void aParameterChangedBeforeBackwardFailsByName() {
    try (var scope = NativeScope.open();
        var model = stack(3);
        var checkpointing = ActivationCheckpointing.install(model, LAYERS)) {
      Tensor loss = model.call(input(4, 6, 1)).sum();
      try (var off = Gradients.off()) {
        model.parameters().get("layer1.linear.bias").add_(Tensors.scalar(1));
      }
      assertThatThrownBy(loss::backward)
          .hasMessageContaining("Cannot checkpoint block layer1: expected its parameters to keep");
    }
  }

  @Test
  void aFailureInTheSecondComputationNamesTheBlock() {
    try (var scope = NativeScope.open();
        var model = new Fragile();
        var checkpointing = ActivationCheckpointing.install(model, (name, block) -> true)) {
      Tensor loss = model.call(input(4, 6, 1)).sum();
      assertThatThrownBy(loss::backward)
          .hasMessageContaining(
              "Cannot compute block Fragile a second time for backward: once only");
      assertThat(checkpointing.causeOf(new RuntimeException("other")))
          .hasRootCauseInstanceOf(UnsupportedOperationException.class);
    }
  }

  @Test
  void tensorsFromElsewhereFailInForward() {
    try (var scope = NativeScope.open();
        var model = new Borrowing();
        var checkpointing =
            ActivationCheckpointing.install(model, (name, block) -> name.equals("inner"))) {
      assertThatThrownBy(() -> model.call(input(4, 6, 1)))
          .isInstanceOf(IllegalStateException.class)
          .hasMessageContaining("Cannot checkpoint block inner: expected it to use its inputs")
          .hasMessageContaining("got 1 other tensors");
      assertThat(checkpointing.size()).isEqualTo(1);
    }
  }

  @Test
  void aPolicyThatChoosesNothingIsRefused() {
    try (var model = stack(1)) {
      assertThatThrownBy(() -> ActivationCheckpointing.install(model, CheckpointPolicy.units()))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessageContaining("at least one block, got none of")
          .hasMessageContaining("layer0 (Layer)");
    }
  }

  @Test
  void closingTakesItAway() {
    try (var scope = NativeScope.open();
        var model = stack(3)) {
      var checkpointing = ActivationCheckpointing.install(model, LAYERS);
      checkpointing.close();
      model.call(input(4, 6, 1)).sum().backward();
      assertThat(checkpointing.recomputations()).isZero();
    }
  }

  /** Compares loss, gradients, buffers and the random state after three steps. */
  private static <B extends Block> void assertSame(
      Supplier<B> factory, CheckpointPolicy policy, Forward<B> forward) {
    Map<String, float[]> expected = run(factory, null, forward);
    Map<String, float[]> actual = run(factory, policy, forward);
    assertThat(actual.keySet()).isEqualTo(expected.keySet());
    // A parameter used several times adds up in another order.
    expected.forEach(
        (name, values) ->
            assertThat(actual.get(name))
                .as(name)
                .usingComparatorWithPrecision(2e-6f * Math.max(1, max(values)))
                .containsExactly(values));
  }

  private static float max(float... values) {
    float max = 0;
    for (float value : values) {
      max = Math.max(max, Math.abs(value));
    }
    return max;
  }

  /** What a test computes with a model. */
  private interface Forward<B extends Block> {
    Tensor apply(B model);
  }

  private static <B extends Block> Map<String, float[]> run(
      Supplier<B> factory,
      @org.jspecify.annotations.Nullable CheckpointPolicy policy,
      Forward<B> forward) {
    Map<String, float[]> results = new LinkedHashMap<>();
    Rng.seed(3);
    try (var scope = NativeScope.open();
        var model = factory.get()) {
      var checkpointing = policy == null ? null : ActivationCheckpointing.install(model, policy);
      for (int step = 0; step < 3; step++) {
        Tensor loss = forward.apply(model).sum();
        results.put("loss " + step, Tensors.toFloats(loss));
        loss.backward();
      }
      model
          .parameters()
          .forEach((name, tensor) -> results.put(name, Tensors.toFloats(tensor.grad())));
      model.buffers().forEach((name, tensor) -> results.put(name, Tensors.toFloats(tensor)));
      results.put("random", new float[] {Rng.draw()});
      if (checkpointing != null) {
        assertThat(checkpointing.recomputations()).isGreaterThanOrEqualTo(3);
        assertThat(checkpointing.waitingCalls()).isZero();
        checkpointing.close();
      }
    }
    return results;
  }

  private static Stack stack(int layers) {
    Rng.seed(3);
    return CheckpointedBlocks.stack(layers);
  }

  private static Tensor input(long rows, long columns, int seed) {
    float[] values = new float[(int) (rows * columns)];
    for (int i = 0; i < values.length; i++) {
      values[i] = (float) Math.sin(i * 0.7 + seed);
    }
    return Tensors.of(values, rows, columns);
  }

  private static void backward(Tensor loss, boolean retain, boolean createGraph) {
    loss.backward(
        new Tensor(), new BoolOptional(retain), createGraph, new TensorArrayRefOptional());
  }
}
