package io.sparktrainer.nn;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.testing.Memory;
import io.sparktrainer.testing.Values;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.util.ArrayList;
import java.util.List;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Test;

class TestBlock {
  /** A layer, a buffer, a nested block, and a weight used twice. */
  private static final class Sample extends Block {
    private final Linear first;
    private final Linear second;
    private final Tensor scale;
    private final Tensor count;

    Sample() {
      this.scale = parameter("scale", Init.constant(2, 1));
      this.count = buffer("count", Tensors.zeros(DType.INT64, Device.CPU));
      this.first = child("first", new Linear(2, 2));
      this.second = child("second", Linear.withoutBias(2, 1));
      tie("alias", first.weight());
    }

    @Override
    protected Tensor forward(Tensor... inputs) {
      count.add_(Tensors.scalar(1));
      return second.call(first.call(inputs[0])).mul(scale);
    }
  }

  @Test
  void namesFollowPyTorchsStateDict() {
    try (Sample sample = new Sample()) {
      assertThat(sample.parameters().keySet())
          .containsExactly("scale", "alias", "first.bias", "second.weight");
      assertThat(sample.buffers().keySet()).containsExactly("count");
      assertThat(sample.state().keySet())
          .containsExactly("scale", "alias", "count", "first.bias", "second.weight");
      assertThat(sample.blocks().keySet()).containsExactly("", "first", "second");
      assertThat(sample.ownParameters().keySet()).containsExactly("scale", "alias");
      assertThat(sample.parameters().values()).allMatch(Tensor::requires_grad);
      assertThat(sample.buffers().get("count").requires_grad()).isFalse();
    }
  }

  @Test
  void tiedParametersAreOneTensor() {
    try (Sample sample = new Sample()) {
      assertThat(sample.parameters().get("alias")).isSameAs(sample.first.weight());
    }
  }

  @Test
  void namesAreChecked() {
    assertThatThrownBy(
            () ->
                new Block() {
                  {
                    parameter("a", Init.constant(0, 1));
                    buffer("a", Init.constant(0, 1));
                  }

                  @Override
                  protected Tensor forward(Tensor... inputs) {
                    return inputs[0];
                  }

                  @Override
                  public String toString() {
                    return "twice";
                  }
                })
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("Cannot register \"a\" in twice: the name is taken.");
    assertThatThrownBy(() -> new Holder().add("a.b"))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage(
            "Cannot register \"a.b\" in Holder: expected a name without dots. Nest blocks instead.");
    assertThatThrownBy(() -> new Holder().add(""))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("expected a name without dots");
  }

  private static final class Holder extends Block {
    void add(String name) {
      parameter(name, Init.constant(0, 1));
    }

    @Override
    protected Tensor forward(Tensor... inputs) {
      return inputs[0].add(Tensors.scalar(1.0));
    }
  }

  @Test
  void interceptorsActInOrderTheLastOneOutermost() {
    List<String> calls = new ArrayList<>();
    Holder block = new Holder();
    BlockInterceptor inner =
        (called, inputs, next) -> {
          calls.add("inner before");
          Tensor output = next.apply(inputs);
          calls.add("inner after");
          return output.mul(Tensors.scalar(10.0));
        };
    block.intercept(inner);
    block.intercept(
        (called, inputs, next) -> {
          assertThat(called).isSameAs(block);
          calls.add("outer before");
          Tensor output = next.apply(inputs[0].add(Tensors.scalar(1.0)));
          calls.add("outer after");
          return output;
        });
    try (var scope = NativeScope.open()) {
      Tensor input = Tensors.of(new float[] {1}, 1);
      assertThat(Values.of(block.call(input))).containsExactly(30);
      assertThat(calls)
          .containsExactly("outer before", "inner before", "inner after", "outer after");
      block.removeInterceptor(inner);
      assertThat(Values.of(block.call(input))).containsExactly(3);
    }
  }

  @Test
  void anInterceptorMayReplaceTheComputation() {
    Holder block = new Holder();
    block.intercept((called, inputs, next) -> inputs[0]);
    try (var scope = NativeScope.open()) {
      assertThat(Values.of(block.call(Tensors.of(new float[] {4}, 1)))).containsExactly(4);
    }
  }

  @Test
  void modesReachAllBlocksBelow() {
    try (Sample sample = new Sample()) {
      assertThat(sample.blocks().values()).allMatch(Block::training);
      sample.eval();
      assertThat(sample.blocks().values()).noneMatch(Block::training);
      sample.train();
      assertThat(sample.blocks().values()).allMatch(Block::training);
    }
  }

  @Test
  void blocksOutliveTheScopeTheyAreMadeIn() {
    Sample sample;
    try (var scope = NativeScope.open()) {
      sample = new Sample();
    }
    try (var scope = NativeScope.open()) {
      sample.call(Tensors.of(new float[] {1, 2}, 1, 2));
      assertThat(Values.of(sample.count)).containsExactly(1);
    }
    sample.close();
    assertThat(sample.scale.isNull()).isTrue();
  }

  @Test
  void closingFreesTheParameters() {
    // 4 MB each: leaking them would be 400 MB
    long growth = Memory.growth(100, () -> new Linear(1000, 1000).close());
    assertThat(growth).isLessThan(40L << 20);
  }

  @Test
  void thousandsOfPassesLeaveNothingBehind() {
    try (Mlp model = new Mlp(64, List.of(256), 10)) {
      Tensor input = Tensors.zeros(DType.FLOAT32, Device.CPU, 32, 64);
      Tensor target = Tensors.zeros(DType.INT64, Device.CPU, 32);
      // activations and gradients are over 100 KB a pass
      long growth =
          Memory.growth(
              3000,
              () -> {
                try (var scope = NativeScope.open()) {
                  Losses.CROSS_ENTROPY.of(model.call(input), target).backward();
                  model.parameters().values().forEach(Tensors::clearGrad);
                }
              });
      assertThat(growth).isLessThan(24L << 20);
      input.close();
      target.close();
    }
  }
}
