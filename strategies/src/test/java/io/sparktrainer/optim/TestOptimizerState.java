package io.sparktrainer.optim;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.testing.Memory;
import io.sparktrainer.testing.Values;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import io.sparktrainer.torch.Threads;
import java.util.LinkedHashMap;
import java.util.Map;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** State by name: what it is called, saving and loading it, errors, memory. */
class TestOptimizerState {
  private NativeScope scope;

  @BeforeEach
  void open() {
    Threads.use(1);
    scope = NativeScope.open();
  }

  @AfterEach
  void close() {
    scope.close();
  }

  private static Map<String, Tensor> parameters() {
    Map<String, Tensor> parameters = new LinkedHashMap<>();
    parameters.put("fc.weight", Tensors.of(new float[] {1, 2, 3, 4, 5, 6}, 2, 3));
    parameters.put("fc.bias", Tensors.of(new float[] {1, 2}, 2));
    return parameters;
  }

  private static void setGrads(Map<String, Tensor> parameters, double value) {
    for (Tensor parameter : parameters.values()) {
      Tensors.setGrad(parameter, parameter.detach().mul(Tensors.scalar(value)).clone());
    }
  }

  @Test
  void hasPyTorchsNames() {
    Map<String, Tensor> parameters = parameters();
    setGrads(parameters, 0.1);
    try (Optimizer adam = OptimizerSpec.adam().amsgrad(true).build().create(parameters);
        Optimizer adamW = OptimizerSpec.adamW().build().create(parameters);
        Optimizer sgd = OptimizerSpec.sgd().momentum(0.9).build().create(parameters);
        Optimizer plain = OptimizerSpec.sgd().build().create(parameters)) {
      assertThat(adam.state()).isEmpty();
      adam.step(0.1);
      adamW.step(0.1);
      sgd.step(0.1);
      plain.step(0.1);
      assertThat(adam.state().keySet())
          .containsExactly(
              "fc.weight/exp_avg",
              "fc.weight/exp_avg_sq",
              "fc.weight/max_exp_avg_sq",
              "fc.weight/step",
              "fc.bias/exp_avg",
              "fc.bias/exp_avg_sq",
              "fc.bias/max_exp_avg_sq",
              "fc.bias/step");
      assertThat(adamW.state().keySet())
          .containsExactly(
              "fc.weight/exp_avg",
              "fc.weight/exp_avg_sq",
              "fc.weight/step",
              "fc.bias/exp_avg",
              "fc.bias/exp_avg_sq",
              "fc.bias/step");
      assertThat(sgd.state().keySet())
          .containsExactly("fc.weight/momentum_buffer", "fc.bias/momentum_buffer");
      assertThat(plain.state()).isEmpty();
      Tensor step = adam.state().get("fc.bias/step");
      assertThat(Tensors.describe(step)).isEqualTo("float32[] on cpu");
      assertThat(Values.of(step)).containsExactly(1);
    }
  }

  @Test
  void continuesExactlyAfterLoading() {
    for (OptimizerSpec spec : TestFusedOptimizers.specs().toList()) {
      Map<String, Tensor> straight = parameters();
      Map<String, Tensor> resumed = parameters();
      try (Optimizer first = spec.create(straight);
          Optimizer second = spec.create(resumed)) {
        steps(first, straight, 3);
        second.loadState(first.state());
        straight.forEach((name, tensor) -> resumed.get(name).copy_(tensor));
        steps(first, straight, 3);
        steps(second, resumed, 3);
        straight.forEach(
            (name, tensor) ->
                assertThat(Values.of(resumed.get(name)))
                    .as("%s %s", spec, name)
                    .containsExactly(Values.of(tensor)));
      }
    }
  }

  private static void steps(Optimizer optimizer, Map<String, Tensor> parameters, int count) {
    for (int i = 0; i < count; i++) {
      setGrads(parameters, 0.1 * (i + 1));
      optimizer.step(0.05);
    }
  }

  @Test
  void loadedStateIsACopyThatReplacesAll() {
    Map<String, Tensor> parameters = parameters();
    try (Optimizer sgd = OptimizerSpec.sgd().momentum(0.9).build().create(parameters)) {
      steps(sgd, parameters, 2);
      Tensor loaded = Tensors.of(new float[] {7, 8}, 2);
      sgd.loadState(Map.of("fc.bias/momentum_buffer", loaded));
      loaded.zero_();
      assertThat(sgd.state().keySet()).containsExactly("fc.bias/momentum_buffer");
      assertThat(Values.of(sgd.state().get("fc.bias/momentum_buffer"))).containsExactly(7, 8);
    }
  }

  @Test
  void stateThatDoesNotFitIsRefusedAndChangesNothing() {
    Map<String, Tensor> parameters = parameters();
    try (Optimizer adam = OptimizerSpec.adam().build().create(parameters)) {
      steps(adam, parameters, 2);
      double[] before = Values.of(adam.state().get("fc.weight/exp_avg"));
      Tensor two = Tensors.of(new float[] {7, 8}, 2);
      assertThatThrownBy(() -> adam.loadState(Map.of("fc2.bias/exp_avg", two)))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessage(
              "Cannot load the state of adam: \"fc2.bias/exp_avg\" is for a parameter that the model does not have.");
      assertThatThrownBy(() -> adam.loadState(Map.of("exp_avg", two)))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessageContaining("\"exp_avg\" is for a parameter that the model does not have");
      assertThatThrownBy(() -> adam.loadState(Map.of("fc.bias/momentum_buffer", two)))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessage(
              "Cannot load the state of adam: expected one of [exp_avg, exp_avg_sq, step] for \"fc.bias\", got \"momentum_buffer\".");
      assertThatThrownBy(() -> adam.loadState(Map.of("fc.weight/exp_avg", two)))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessage(
              "Cannot load the state of adam: expected floating-point values of shape [2, 3] for \"fc.weight/exp_avg\", got float32[2] on cpu.");
      assertThatThrownBy(() -> adam.loadState(Map.of("fc.bias/exp_avg", two)))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessage(
              "Cannot load the state of adam: expected [exp_avg, exp_avg_sq, step] for \"fc.bias\", got only [exp_avg].");
      assertThat(Values.of(adam.state().get("fc.weight/exp_avg"))).containsExactly(before);
    }
  }

  @Test
  void refusesWhatItCannotUpdate() {
    var spec = OptimizerSpec.adamW().build();
    assertThatThrownBy(() -> spec.create(Map.of()))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("Cannot make adamw: expected at least one parameter, got none.");
    Tensor whole = Tensors.of(new long[] {1, 2}, 2);
    assertThatThrownBy(() -> spec.create(Map.of("ids", whole)))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage(
            "Cannot make adamw: expected floating-point parameters, got \"ids\" int64[2] on cpu.");
  }

  @Test
  void refusesGradientsAndStateOfAnotherShape() {
    Tensor parameter = Tensors.of(new float[] {1, 2, 3, 4}, 4);
    try (Optimizer adam = OptimizerSpec.adam().build().create(Map.of("w", parameter))) {
      Tensors.setGrad(parameter, Tensors.of(new float[] {1, 2, 3, 4}, 4));
      adam.step(0.1);
      parameter.set_data(Tensors.of(new float[] {1, 2}, 2));
      assertThatThrownBy(() -> adam.step(0.1))
          .isInstanceOf(IllegalStateException.class)
          .hasMessage(
              "Cannot update \"w\": expected a gradient of the parameter's shape, got parameter float32[2] on cpu and gradient float32[4] on cpu.");
      Tensors.setGrad(parameter, Tensors.of(new float[] {1, 2}, 2));
      assertThatThrownBy(() -> adam.step(0.1))
          .isInstanceOf(IllegalStateException.class)
          .hasMessage(
              "Cannot update \"w\": its state is for shape [4], got a parameter of shape [2]. Make a new optimizer after changing a parameter's shape.");
    }
  }

  @Test
  void refusesLearningRatesThatAreNotFinite() {
    Map<String, Tensor> parameters = parameters();
    try (Optimizer adam = OptimizerSpec.adam().build().create(parameters)) {
      assertThatThrownBy(() -> adam.step(Double.NaN))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessage("Cannot take a step of adam: expected a finite learning rate, got NaN.");
    }
  }

  @Test
  void refusesUseAfterClose() {
    Optimizer adam = OptimizerSpec.adam().build().create(parameters());
    adam.close();
    adam.close();
    assertThatThrownBy(() -> adam.step(0.1))
        .isInstanceOf(IllegalStateException.class)
        .hasMessage("Cannot use adam: it is closed.");
    assertThatThrownBy(adam::state)
        .isInstanceOf(IllegalStateException.class)
        .hasMessageContaining("closed");
  }

  @Test
  void fiveThousandStepsLeaveNothingBehind() {
    Map<String, Tensor> parameters = new LinkedHashMap<>();
    for (int i = 0; i < 8; i++) {
      Tensor parameter = Tensors.zeros(DType.FLOAT32, Device.CPU, 64, 64);
      // one whose kernel works on a copy
      parameters.put("p" + i, i == 0 ? parameter.narrow(1, 0, 32) : parameter);
      Tensor gradient = Tensors.zeros(DType.FLOAT32, Device.CPU, 64, 64);
      Tensors.setGrad(parameters.get("p" + i), i == 0 ? gradient.narrow(1, 0, 32) : gradient);
    }
    for (OptimizerSpec spec :
        new OptimizerSpec[] {
          OptimizerSpec.adamW().amsgrad(true).build(), OptimizerSpec.sgd().momentum(0.9).build()
        }) {
      try (Optimizer optimizer = spec.create(parameters)) {
        optimizer.step(0.1);
        long before = Pointer.totalCount();
        // one leaked tensor a step would be 80 MB
        assertThat(Memory.growth(5000, () -> optimizer.step(0.1)))
            .as("bytes over 5,000 steps of %s", optimizer)
            .isLessThan(16L << 20);
        assertThat(Pointer.totalCount()).isLessThanOrEqualTo(before);
      }
    }
  }

  @Test
  void closingFreesTheState() {
    Tensor parameter = Tensors.zeros(DType.FLOAT32, Device.CPU, 16 << 20).fill_(Tensors.scalar(1));
    Tensors.setGrad(parameter, parameter.clone());
    long before = Memory.residentBytes();
    try (Optimizer adam = OptimizerSpec.adam().build().create(Map.of("w", parameter))) {
      adam.step(0.1);
      assertThat(Memory.residentBytes() - before).isGreaterThan(100L << 20); // 2 x 64 MiB
    }
    assertThat(Memory.residentBytes() - before).isLessThan(32L << 20);
  }
}
