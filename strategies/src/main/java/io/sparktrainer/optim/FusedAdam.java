package io.sparktrainer.optim;

import io.sparktrainer.torch.NativeOperator;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.IValue;
import org.bytedeco.pytorch.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * Adam and AdamW on {@code aten::_fused_adam_} and {@code aten::_fused_adamw_}. State: {@code
 * exp_avg}, {@code exp_avg_sq}, {@code max_exp_avg_sq} with AMSGrad, {@code step}.
 */
final class FusedAdam extends FusedOptimizer {
  private static final String EXP_AVG = "exp_avg";
  private static final String EXP_AVG_SQ = "exp_avg_sq";
  private static final String MAX_EXP_AVG_SQ = "max_exp_avg_sq";

  private final NativeOperator kernel;
  private final OptimizerSpec.Adam options;

  private FusedAdam(
      String name,
      NativeOperator kernel,
      OptimizerSpec.Adam options,
      Map<String, Tensor> parameters) {
    super(name, options.lr(), stateNames(options.amsgrad()), parameters);
    this.kernel = kernel;
    this.options = options;
  }

  static FusedAdam of(OptimizerSpec.Adam spec, Map<String, Tensor> parameters) {
    return new FusedAdam(spec.name(), Kernels.ADAM, spec, parameters);
  }

  static FusedAdam of(OptimizerSpec.AdamW spec, Map<String, Tensor> parameters) {
    var options =
        new OptimizerSpec.Adam(
            spec.lr(), spec.beta1(), spec.beta2(), spec.eps(), spec.weightDecay(), spec.amsgrad());
    return new FusedAdam(spec.name(), Kernels.ADAMW, options, parameters);
  }

  private static List<String> stateNames(boolean amsgrad) {
    List<String> names = new ArrayList<>(List.of(EXP_AVG, EXP_AVG_SQ));
    if (amsgrad) {
      names.add(MAX_EXP_AVG_SQ);
    }
    names.add(Slot.STEP);
    return List.copyOf(names);
  }

  @Override
  void update(
      Batch batch, double learningRate, @Nullable Tensor gradScale, @Nullable Tensor foundInf) {
    // The kernel reads the step counts and leaves counting to its caller.
    IValue steps = NativeOperator.list(batch.states(Slot.STEP));
    Kernels.ADD_SCALAR.call().with(steps).withScalar(1).run();
    kernel
        .call()
        .with(batch.parameters())
        .with(batch.gradients())
        .with(batch.states(EXP_AVG))
        .with(batch.states(EXP_AVG_SQ))
        .with(options.amsgrad() ? batch.states(MAX_EXP_AVG_SQ) : List.of())
        .with(steps)
        .with(learningRate)
        .with(options.beta1())
        .with(options.beta2())
        .with(options.weightDecay())
        .with(options.eps())
        .with(options.amsgrad())
        .with(false) // maximize
        .with(gradScale)
        .with(foundInf)
        .run();
    if (foundInf != null) {
      // Takes the count back where the kernel did nothing, without asking the device for the value.
      Kernels.SUBTRACT_LIST
          .call()
          .with(steps)
          .with(Collections.nCopies(batch.parameters().size(), foundInf))
          .withScalar(1) // alpha
          .run();
    }
  }

  private static final class Kernels {
    static final NativeOperator ADAM = NativeOperator.find("aten::_fused_adam_", "");
    static final NativeOperator ADAMW = NativeOperator.find("aten::_fused_adamw_", "");
    static final NativeOperator ADD_SCALAR = NativeOperator.find("aten::_foreach_add_", "Scalar");
    static final NativeOperator SUBTRACT_LIST = NativeOperator.find("aten::_foreach_sub_", "List");
  }
}
