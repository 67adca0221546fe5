package io.sparktrainer.strategy.ddp;

import io.sparktrainer.torch.NativeOperator;
import java.util.ArrayList;
import java.util.List;
import org.bytedeco.pytorch.Tensor;

/** Copies between many tensors by one call, which is most of the cost where they are small. */
final class GradientCopies {
  private final List<Tensor> targets = new ArrayList<>();
  private final List<Tensor> sources = new ArrayList<>();

  void add(Tensor target, Tensor source) {
    targets.add(target);
    sources.add(source);
  }

  /** Carries out all copies. */
  void run() {
    if (targets.size() == 1) {
      targets.get(0).copy_(sources.get(0));
    } else if (!targets.isEmpty()) {
      Kernel.COPY.call().with(targets).with(sources).with(false).run();
    }
  }

  /** Multiplies what was copied to. */
  void scaleTargets(double factor) {
    if (!targets.isEmpty()) {
      Kernel.SCALE.call().with(targets).withScalar(factor).run();
    }
  }

  private static final class Kernel {
    static final NativeOperator SCALE = NativeOperator.find("aten::_foreach_mul_", "Scalar");
    static final NativeOperator COPY = NativeOperator.find("aten::_foreach_copy_", "");
  }
}
