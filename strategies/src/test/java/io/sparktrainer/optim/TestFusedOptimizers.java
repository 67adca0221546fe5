package io.sparktrainer.optim;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import io.sparktrainer.testing.Values;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;

/** Every optimizer against {@link Reference}: options, element types, shapes and layouts. */
class TestFusedOptimizers {
  private static final int STEPS = 6;
  private static final double LR = 0.05;

  static Stream<OptimizerSpec> specs() {
    return Stream.of(
        OptimizerSpec.sgd().build(),
        OptimizerSpec.sgd().weightDecay(0.1).build(),
        OptimizerSpec.sgd().momentum(0.9).build(),
        OptimizerSpec.sgd().momentum(0.9).dampening(0.3).weightDecay(0.1).build(),
        OptimizerSpec.sgd().momentum(0.9).nesterov(true).weightDecay(0.01).build(),
        OptimizerSpec.adam().build(),
        OptimizerSpec.adam().beta1(0.8).beta2(0.95).eps(1e-3).weightDecay(0.1).build(),
        OptimizerSpec.adam().amsgrad(true).build(),
        OptimizerSpec.adamW().build(),
        OptimizerSpec.adamW().beta1(0.7).weightDecay(0.2).amsgrad(true).build());
  }

  @ParameterizedTest
  @MethodSource("specs")
  void updatesDoubleParametersByTheFormula(OptimizerSpec spec) {
    compare(spec, DType.FLOAT64, UnaryOperator.identity(), UnaryOperator.identity(), 1e-12, 3, 37);
  }

  @ParameterizedTest
  @MethodSource("specs")
  void updatesFloatParametersByTheFormula(OptimizerSpec spec) {
    compare(spec, DType.FLOAT32, UnaryOperator.identity(), UnaryOperator.identity(), 1e-5, 3, 37);
  }

  @ParameterizedTest
  @MethodSource("specs")
  void updatesHalfPrecisionParametersWithinTheirPrecision(OptimizerSpec spec) {
    compare(spec, DType.BFLOAT16, UnaryOperator.identity(), UnaryOperator.identity(), 0.06, 3, 37);
    compare(spec, DType.FLOAT16, UnaryOperator.identity(), UnaryOperator.identity(), 0.01, 3, 37);
  }

  @ParameterizedTest
  @MethodSource("specs")
  void handlesScalarsAndEmptyParameters(OptimizerSpec spec) {
    compare(spec, DType.FLOAT32, UnaryOperator.identity(), UnaryOperator.identity(), 1e-5);
    compare(spec, DType.FLOAT32, UnaryOperator.identity(), UnaryOperator.identity(), 1e-5, 0, 4);
  }

  @ParameterizedTest
  @MethodSource("specs")
  void report29HandlesParametersThatAreNotRowMajor(OptimizerSpec spec) {
    UnaryOperator<Tensor> same = UnaryOperator.identity();
    compare(spec, DType.FLOAT64, TestFusedOptimizers::channelsLast, same, 1e-12, 2, 3, 4, 5);
    compare(spec, DType.FLOAT64, same, TestFusedOptimizers::channelsLast, 1e-12, 2, 3, 4, 5);
    compare(spec, DType.FLOAT64, TestFusedOptimizers::transposed, same, 1e-12, 3, 7);
  }

  @ParameterizedTest
  @MethodSource("specs")
  void handlesParametersAndGradientsWithGaps(OptimizerSpec spec) {
    compare(
        spec,
        DType.FLOAT64,
        TestFusedOptimizers::withGaps,
        TestFusedOptimizers::expanded,
        1e-12,
        5,
        3);
  }

  private static Tensor channelsLast(Tensor tensor) {
    return tensor.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2);
  }

  private static Tensor transposed(Tensor tensor) {
    return tensor.t().contiguous().t();
  }

  /** The middle columns of a wider tensor. */
  private static Tensor withGaps(Tensor tensor) {
    long[] shape = Tensors.shape(tensor);
    Tensor wide = tensor.new_zeros(shape[0], shape[1] + 4).fill_(Tensors.scalar(7));
    Tensor middle = wide.narrow(1, 2, shape[1]);
    middle.copy_(tensor);
    return middle;
  }

  /** Every row the first one, in no memory of its own. */
  private static Tensor expanded(Tensor tensor) {
    return tensor.narrow(0, 0, 1).expand_as(tensor);
  }

  private static void compare(
      OptimizerSpec spec,
      DType dtype,
      UnaryOperator<Tensor> parameterLayout,
      UnaryOperator<Tensor> gradientLayout,
      double tolerance,
      long... shape) {
    var random = new Random(7);
    try (var scope = NativeScope.open()) {
      Tensor parameter = parameterLayout.apply(randomTensor(random, dtype, shape));
      parameter.set_requires_grad(true);
      var reference = new Reference(spec, Values.of(parameter));
      try (Optimizer optimizer = spec.create(Map.of("w", parameter))) {
        for (int step = 0; step < STEPS; step++) {
          Tensor gradient = gradientLayout.apply(randomTensor(random, dtype, shape));
          Tensors.setGrad(parameter, gradient);
          optimizer.step(LR / (1 + step));
          reference.step(LR / (1 + step), Values.of(gradient));
        }
        assertThat(Values.of(parameter))
            .as("%s %s", spec, dtype)
            .containsExactly(reference.values(), within(tolerance));
      }
    }
  }

  private static Tensor randomTensor(Random random, DType dtype, long... shape) {
    double[] values = random.doubles(Tensors.elements(shape), -1, 1).toArray();
    return Values.tensor(values, shape).to(dtype.scalarType());
  }

  @Test
  void updatesParametersOfSeveralTypesInOneStep() {
    try (var scope = NativeScope.open()) {
      var random = new Random(3);
      var spec = OptimizerSpec.adamW().build();
      Map<String, Tensor> parameters = new LinkedHashMap<>();
      Map<String, Reference> references = new LinkedHashMap<>();
      for (DType dtype : List.of(DType.FLOAT32, DType.FLOAT64, DType.FLOAT32)) {
        String name = "p" + parameters.size();
        Tensor parameter = randomTensor(random, dtype, 4, 4);
        Tensors.setGrad(parameter, randomTensor(random, dtype, 4, 4));
        parameters.put(name, parameter);
        references.put(name, new Reference(spec, Values.of(parameter)));
      }
      try (Optimizer optimizer = spec.create(parameters)) {
        optimizer.step(LR);
      }
      parameters.forEach(
          (name, parameter) -> {
            Reference reference = references.get(name);
            reference.step(LR, Values.of(parameter.grad()));
            assertThat(Values.of(parameter)).containsExactly(reference.values(), within(1e-6));
          });
    }
  }

  @Test
  void slicesLeaveTheRestOfTheirMemoryAlone() {
    try (var scope = NativeScope.open()) {
      Tensor whole = Values.tensor(new double[] {1, 2, 3, 4, 5, 6}, 2, 3);
      Tensor column = whole.narrow(1, 1, 1);
      Tensors.setGrad(column, Values.tensor(new double[] {10, 10}, 2, 1));
      try (Optimizer optimizer = OptimizerSpec.sgd().build().create(Map.of("column", column))) {
        optimizer.step(0.1);
      }
      assertThat(Values.of(whole)).containsExactly(new double[] {1, 1, 3, 4, 4, 6}, within(1e-12));
    }
  }

  @Test
  void followsAParameterThatChangesItsLayout() {
    try (var scope = NativeScope.open()) {
      var random = new Random(5);
      var spec = OptimizerSpec.adam().build();
      Tensor parameter = randomTensor(random, DType.FLOAT64, 2, 3, 4, 5);
      var reference = new Reference(spec, Values.of(parameter));
      try (Optimizer optimizer = spec.create(Map.of("w", parameter))) {
        for (int step = 0; step < STEPS; step++) {
          Tensor gradient = randomTensor(random, DType.FLOAT64, 2, 3, 4, 5);
          Tensors.setGrad(parameter, gradient);
          optimizer.step(LR);
          reference.step(LR, Values.of(gradient));
          if (step == 2) {
            parameter.set_data(channelsLast(parameter.detach()));
          }
        }
        assertThat(Values.of(optimizer.state().get("w/exp_avg")))
            .containsExactly(reference.moments().get(0), within(1e-12));
        assertThat(Values.of(parameter)).containsExactly(reference.values(), within(1e-12));
      }
    }
  }

  @Test
  void leavesParametersWithoutGradientAndTheirStateAlone() {
    for (OptimizerSpec spec : specs().toList()) {
      try (var scope = NativeScope.open()) {
        Map<String, Tensor> parameters = new LinkedHashMap<>();
        List<Reference> references = new ArrayList<>();
        var random = new Random(9);
        for (String name : List.of("a", "b", "c")) {
          parameters.put(name, randomTensor(random, DType.FLOAT64, 4));
          references.add(new Reference(spec, Values.of(parameters.get(name))));
        }
        try (Optimizer optimizer = spec.create(parameters)) {
          // a in every step, b in every second, c never
          for (int step = 0; step < STEPS; step++) {
            int index = 0;
            for (Tensor parameter : parameters.values()) {
              boolean used = index == 0 || (index == 1 && step % 2 == 1);
              Tensors.clearGrad(parameter);
              if (used) {
                Tensor gradient = randomTensor(random, DType.FLOAT64, 4);
                Tensors.setGrad(parameter, gradient);
                references.get(index).step(LR, Values.of(gradient));
              }
              index++;
            }
            optimizer.step(LR);
          }
          int index = 0;
          for (Tensor parameter : parameters.values()) {
            assertThat(Values.of(parameter))
                .as("%s, parameter %d", spec, index)
                .containsExactly(references.get(index).values(), within(1e-12));
            index++;
          }
          assertThat(optimizer.state().keySet()).noneMatch(name -> name.startsWith("c/"));
          if (!(spec instanceof OptimizerSpec.Sgd)) {
            assertThat(Values.of(optimizer.state().get("a/step"))).containsExactly(6);
            assertThat(Values.of(optimizer.state().get("b/step"))).containsExactly(3);
          }
        }
      }
    }
  }

  @ParameterizedTest
  @EnumSource(
      value = DType.class,
      names = {"FLOAT64", "FLOAT32", "BFLOAT16", "FLOAT16"})
  void scalesGradientsDownAndSkipsStepsWithOverflow(DType dtype) {
    for (OptimizerSpec spec : specs().toList()) {
      try (var scope = NativeScope.open()) {
        var random = new Random(9);
        Tensor parameter = randomTensor(random, dtype, 3, 37);
        var reference = new Reference(spec, Values.of(parameter));
        try (Optimizer optimizer = spec.create(Map.of("w", parameter))) {
          for (int step = 0; step < STEPS; step++) {
            Tensor gradient = randomTensor(random, dtype, 3, 37);
            boolean overflow = step == 2 || step == 4;
            if (!overflow) {
              reference.step(LR, Values.of(gradient));
            }
            Tensors.setGrad(parameter, gradient.mul(Tensors.scalar(1024)));
            optimizer.step(
                LR, Tensors.of(new float[] {1024}), Tensors.of(new float[] {overflow ? 1 : 0}));
          }
          double tolerance = dtype.bytes() == 2 ? 0.06 : 1e-5;
          assertThat(Values.of(parameter))
              .as("%s", spec)
              .containsExactly(reference.values(), within(tolerance));
        }
      }
    }
  }
}
