package io.sparktrainer.optim;

import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.NativeOperator;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * SGD on {@code aten::_fused_sgd_}. State: {@code momentum_buffer}, only with momentum.
 *
 * <p>For parameters of 16 bits on the CPU, libtorch 2.10's kernel updates only those elements that
 * are left over from its vectors (pytorch/pytorch issue 191763). Such parameters are computed in
 * float32, with a float32 momentum, and rounded once.
 */
final class FusedSgd extends FusedOptimizer {
  private static final String MOMENTUM_BUFFER = "momentum_buffer";

  private final OptimizerSpec.Sgd spec;

  FusedSgd(OptimizerSpec.Sgd spec, Map<String, Tensor> parameters) {
    super(
        spec.name(),
        spec.lr(),
        spec.momentum() == 0 ? List.of() : List.of(MOMENTUM_BUFFER),
        parameters);
    this.spec = spec;
  }

  @Override
  DType workingType(Tensor parameter) {
    DType dtype = DType.of(parameter);
    return dtype.bytes() == 2 && parameter.is_cpu() ? DType.FLOAT32 : dtype;
  }

  @Override
  void update(
      Batch batch, double learningRate, @Nullable Tensor gradScale, @Nullable Tensor foundInf) {
    Kernel.OPERATOR
        .call()
        .with(batch.parameters())
        .with(batch.gradients())
        .with(spec.momentum() == 0 ? List.of() : batch.states(MOMENTUM_BUFFER))
        .with(spec.weightDecay())
        .with(spec.momentum())
        .with(learningRate)
        .with(spec.dampening())
        .with(spec.nesterov())
        .with(false) // maximize
        .with(batch.fresh())
        .with(gradScale)
        .with(foundInf)
        .run();
  }

  private static final class Kernel {
    static final NativeOperator OPERATOR = NativeOperator.find("aten::_fused_sgd_", "");
  }
}
