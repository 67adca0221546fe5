package io.sparktrainer.optim;

import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.Gradients;
import io.sparktrainer.torch.NativeOperator;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * Gradient clipping over a set of parameters, as PyTorch's {@code clip_grad_norm_} and {@code
 * clip_grad_value_} do it. Parameters without gradient take no part.
 *
 * <p>A strategy whose gradients are spread over ranks adds up {@link #sumOfSquares} over the ranks
 * and then calls {@link #scale} with {@link #coefficient}; {@link #byNorm} is the same on one rank.
 */
public final class Clipping {
  /** PyTorch's guard against a norm of zero. */
  private static final double EPSILON = 1e-6;

  private Clipping() {}

  /**
   * Scales all gradients so that their common 2-norm is at most {@code maxNorm}. Reads one number
   * from the device.
   *
   * @return the norm before clipping; NaN or infinite if a gradient is, and the gradients are then
   *     of no use
   * @throws IllegalArgumentException if {@code maxNorm} is not above 0
   */
  public static double byNorm(Map<String, Tensor> parameters, double maxNorm) {
    try (var scope = NativeScope.open()) {
      Tensor norm = sumOfSquares(parameters.values()).sqrt();
      scale(parameters.values(), coefficient(norm, maxNorm));
      return norm.item_double();
    }
  }

  /**
   * Limits every element of every gradient to [-limit, limit].
   *
   * @throws IllegalArgumentException if {@code limit} is not above 0
   */
  public static void byValue(Map<String, Tensor> parameters, double limit) {
    requirePositive("the gradients' values", limit);
    try (var scope = NativeScope.open();
        var off = Gradients.off()) {
      for (List<Tensor> group : gradients(parameters.values()).values()) {
        Kernels.CLAMP_MIN.call().with(group).withScalar(-limit).run();
        Kernels.CLAMP_MAX.call().with(group).withScalar(limit).run();
      }
    }
  }

  /**
   * Sum of the squares of all elements of all gradients. Norms of single gradients are taken in
   * float32 (float64 for float64 gradients) and added up in float64; nothing waits for the device.
   *
   * @return float64 scalar on the gradients' device, in the caller's scope; zero if there are none
   */
  public static Tensor sumOfSquares(Collection<Tensor> parameters) {
    try (var scope = NativeScope.open();
        var off = Gradients.off()) {
      Device device = parameters.stream().findFirst().map(Device::of).orElse(Device.CPU);
      Tensor sum = Tensors.zeros(DType.FLOAT64, device);
      gradients(parameters)
          .forEach(
              (group, tensors) -> {
                var norms =
                    Kernels.NORM
                        .call()
                        .with(tensors)
                        .withScalar(2)
                        .with(group.computed())
                        .runForTensors();
                Tensor together = torch.stack(norms).to(DType.FLOAT64.scalarType());
                sum.add_(together.square().sum().to(device.toNative(), DType.FLOAT64.scalarType()));
              });
      return scope.pass(sum);
    }
  }

  /**
   * What gradients of the given norm are multiplied by: maxNorm / (norm + 1e-6), at most 1.
   *
   * @param norm floating-point scalar
   * @return scalar like {@code norm}, in the caller's scope
   * @throws IllegalArgumentException if {@code maxNorm} is not above 0
   */
  public static Tensor coefficient(Tensor norm, double maxNorm) {
    requirePositive("the gradients' norm", maxNorm);
    try (var scope = NativeScope.open();
        var off = Gradients.off()) {
      Tensor ratio = norm.add(Tensors.scalar(EPSILON)).reciprocal().mul(Tensors.scalar(maxNorm));
      return scope.pass(torch.clamp_max(ratio, Tensors.scalar(1)));
    }
  }

  /**
   * Multiplies all gradients by {@code factor}, whose value stays on the device.
   *
   * @param factor floating-point scalar
   */
  public static void scale(Collection<Tensor> parameters, Tensor factor) {
    try (var scope = NativeScope.open();
        var off = Gradients.off()) {
      gradients(parameters)
          .forEach(
              (group, tensors) ->
                  Kernels.MULTIPLY
                      .call()
                      .with(tensors)
                      .with(factor.to(group.device().toNative(), group.computed().scalarType()))
                      .run());
    }
  }

  private record Group(DType dtype, Device device) {
    /** The type to compute norms and factors in: half precision would lose both. */
    DType computed() {
      return dtype == DType.FLOAT64 ? DType.FLOAT64 : DType.FLOAT32;
    }
  }

  /** The gradients there are, in the current scope, by what one kernel call can take. */
  private static Map<Group, List<Tensor>> gradients(Collection<Tensor> parameters) {
    Map<Group, List<Tensor>> groups = new LinkedHashMap<>();
    for (Tensor parameter : parameters) {
      Tensor gradient = parameter.grad();
      if (gradient.defined()) {
        groups
            .computeIfAbsent(
                new Group(DType.of(gradient), Device.of(gradient)), group -> new ArrayList<>())
            .add(gradient);
      }
    }
    return groups;
  }

  private static void requirePositive(String what, double limit) {
    if (!(limit > 0)) {
      throw new IllegalArgumentException(
          "Cannot clip " + what + ": expected a limit above 0, got " + limit + ".");
    }
  }

  private static final class Kernels {
    static final NativeOperator NORM = NativeOperator.find("aten::_foreach_norm", "Scalar");
    static final NativeOperator MULTIPLY = NativeOperator.find("aten::_foreach_mul_", "Tensor");
    static final NativeOperator CLAMP_MIN =
        NativeOperator.find("aten::_foreach_clamp_min_", "Scalar");
    static final NativeOperator CLAMP_MAX =
        NativeOperator.find("aten::_foreach_clamp_max_", "Scalar");
  }
}
