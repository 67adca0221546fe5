package io.sparktrainer.optim;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

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

class TestClipping {
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

  private static Tensor withGradient(DType dtype, double... gradient) {
    Tensor parameter = Tensors.zeros(dtype, Device.CPU, gradient.length);
    Tensors.setGrad(parameter, Values.tensor(gradient, gradient.length).to(dtype.scalarType()));
    return parameter;
  }

  @Test
  void scalesToTheLargestNormAllowed() {
    Map<String, Tensor> parameters = new LinkedHashMap<>();
    parameters.put("a", withGradient(DType.FLOAT32, 3, 0));
    parameters.put("b", withGradient(DType.FLOAT32, 0, 0, 4));
    parameters.put("frozen", Tensors.zeros(DType.FLOAT32, Device.CPU, 2));
    assertThat(Clipping.byNorm(parameters, 2)).isCloseTo(5, within(1e-6));
    double factor = 2 / (5 + 1e-6);
    assertThat(Values.of(parameters.get("a").grad()))
        .containsExactly(new double[] {3 * factor, 0}, within(1e-7));
    assertThat(Values.of(parameters.get("b").grad()))
        .containsExactly(new double[] {0, 0, 4 * factor}, within(1e-7));
    assertThat(parameters.get("frozen").grad().defined()).isFalse();
  }

  @Test
  void leavesSmallerNormsAlone() {
    Map<String, Tensor> parameters = Map.of("a", withGradient(DType.FLOAT32, 3, 4));
    assertThat(Clipping.byNorm(parameters, 5.1)).isEqualTo(5);
    assertThat(Values.of(parameters.get("a").grad())).containsExactly(3, 4);
  }

  @Test
  void takesOneNormOverAllElementTypes() {
    Map<String, Tensor> parameters = new LinkedHashMap<>();
    parameters.put("f64", withGradient(DType.FLOAT64, 1, 1));
    parameters.put("f32", withGradient(DType.FLOAT32, 1, 1));
    parameters.put("bf16", withGradient(DType.BFLOAT16, 2, 2));
    parameters.put("f16", withGradient(DType.FLOAT16, 2));
    assertThat(Clipping.byNorm(parameters, 1)).isCloseTo(4, within(1e-6));
    assertThat(Values.of(parameters.get("f64").grad()))
        .containsExactly(new double[] {0.25, 0.25}, within(1e-6));
    assertThat(Values.of(parameters.get("bf16").grad()))
        .containsExactly(new double[] {0.5, 0.5}, within(1e-2));
  }

  @Test
  void addsUpHalfPrecisionWithoutLosingSmallGradients() {
    // in bfloat16 itself, adding 1 to 256 changes nothing
    double[] ones = new double[1000];
    java.util.Arrays.fill(ones, 1);
    Map<String, Tensor> parameters = Map.of("w", withGradient(DType.BFLOAT16, ones));
    assertThat(Clipping.byNorm(parameters, 1e9)).isCloseTo(Math.sqrt(1000), within(1e-4));
    // in float16 the sum of squares would overflow
    Map<String, Tensor> large = Map.of("w", withGradient(DType.FLOAT16, 30000, 40000));
    assertThat(Clipping.byNorm(large, 1e9)).isCloseTo(50000, within(20.0));
  }

  @Test
  void handlesAnyLayoutAndEmptyGradients() {
    Tensor parameter = Tensors.zeros(DType.FLOAT32, Device.CPU, 2, 3);
    Tensors.setGrad(parameter, Tensors.of(new float[] {1, 2, 3, 4, 5, 6}, 3, 2).t());
    Tensor empty = Tensors.zeros(DType.FLOAT32, Device.CPU, 0);
    Tensors.setGrad(empty, Tensors.zeros(DType.FLOAT32, Device.CPU, 0));
    double norm = Clipping.byNorm(Map.of("w", parameter, "e", empty), 1);
    assertThat(norm).isCloseTo(Math.sqrt(91), within(1e-5));
    assertThat(Values.of(parameter.grad())[1]).isCloseTo(3 / norm, within(1e-5));
  }

  @Test
  void noGradientsHaveTheNormZero() {
    assertThat(Clipping.byNorm(Map.of(), 1)).isZero();
    assertThat(Clipping.byNorm(Map.of("w", Tensors.zeros(DType.FLOAT32, Device.CPU, 2)), 1))
        .isZero();
  }

  @Test
  void reportsNormsThatAreNotFinite() {
    assertThat(Clipping.byNorm(Map.of("w", withGradient(DType.FLOAT32, 1, Double.NaN)), 1)).isNaN();
    assertThat(
            Clipping.byNorm(Map.of("w", withGradient(DType.FLOAT32, Double.NEGATIVE_INFINITY)), 1))
        .isInfinite();
  }

  /** What a sharding strategy does: each rank its own sum, one factor for all. */
  @Test
  void partsGiveTheSameAsTheWhole() {
    Map<String, Tensor> first = Map.of("a", withGradient(DType.FLOAT32, 3, 1));
    Map<String, Tensor> second = Map.of("b", withGradient(DType.FLOAT32, 4, 1));
    Tensor norm =
        Clipping.sumOfSquares(first.values()).add(Clipping.sumOfSquares(second.values())).sqrt();
    assertThat(norm.item_double()).isCloseTo(Math.sqrt(27), within(1e-6));
    Tensor factor = Clipping.coefficient(norm, 1);
    Clipping.scale(first.values(), factor);
    Clipping.scale(second.values(), factor);
    assertThat(Values.of(first.get("a").grad())[0]).isCloseTo(3 / Math.sqrt(27), within(1e-6));
    assertThat(Values.of(second.get("b").grad())[0]).isCloseTo(4 / Math.sqrt(27), within(1e-6));
  }

  @Test
  void limitsValues() {
    Map<String, Tensor> parameters = new LinkedHashMap<>();
    parameters.put("a", withGradient(DType.FLOAT32, -3, 0.25, 7));
    parameters.put("b", withGradient(DType.BFLOAT16, -3, 0.25));
    parameters.put("frozen", Tensors.zeros(DType.FLOAT32, Device.CPU, 2));
    Clipping.byValue(parameters, 0.5);
    assertThat(Values.of(parameters.get("a").grad())).containsExactly(-0.5, 0.25, 0.5);
    assertThat(Values.of(parameters.get("b").grad())).containsExactly(-0.5, 0.25);
  }

  @Test
  void limitsMustBePositive() {
    assertThatThrownBy(() -> Clipping.byNorm(Map.of(), 0))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("Cannot clip the gradients' norm: expected a limit above 0, got 0.0.");
    assertThatThrownBy(() -> Clipping.byValue(Map.of(), Double.NaN))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("Cannot clip the gradients' values: expected a limit above 0, got NaN.");
  }

  @Test
  void thousandsOfCallsLeaveNothingBehind() {
    Map<String, Tensor> parameters = new LinkedHashMap<>();
    for (int i = 0; i < 5; i++) {
      parameters.put("p" + i, withGradient(DType.FLOAT32, new double[4096]));
    }
    Clipping.byNorm(parameters, 1);
    Clipping.byValue(parameters, 1);
    long before = Pointer.totalCount();
    long growth =
        Memory.growth(
            5000,
            () -> {
              Clipping.byNorm(parameters, 1);
              Clipping.byValue(parameters, 1);
            });
    assertThat(growth).isLessThan(16L << 20);
    assertThat(Pointer.totalCount()).isLessThanOrEqualTo(before);
  }
}
