package io.sparktrainer.nn;

import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.NativeLibraries;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.nio.file.Path;
import org.bytedeco.pytorch.BoolType;
import org.bytedeco.pytorch.IValue;
import org.bytedeco.pytorch.JitModule;
import org.bytedeco.pytorch.QualifiedName;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.Type;

/** TorchScript modules, written as PyTorch would. */
public final class ScriptFiles {
  private ScriptFiles() {}

  /**
   * [n, 3] to [n, 2], with a running mean and dropout: parameters {@code inner.weight}, {@code
   * weight} and {@code frozen}, buffer {@code seen}.
   */
  public static Path net(Path folder) {
    NativeLibraries.load();
    try (var scope = NativeScope.open()) {
      JitModule inner = new JitModule(new QualifiedName("Inner"));
      inner.register_parameter("weight", values(4, 3), false);
      mode(inner);
      inner.define(
          "def forward(self, x):\n  return torch.tanh(torch.matmul(x, self.weight.t()))\n");
      JitModule net = new JitModule(new QualifiedName("Net"));
      net.register_parameter("weight", values(2, 4), false);
      Tensor frozen = values(2).set_requires_grad(false);
      net.register_parameter("frozen", frozen, false);
      net.register_buffer("seen", Tensors.zeros(DType.FLOAT32, Device.CPU, 1));
      net.register_module("inner", inner);
      mode(net);
      net.define(
          """
          def forward(self, x):
            if self.training:
              self.seen.add_(x.size(0))
            return torch.matmul(self.inner.forward(x), self.weight.t()) + self.frozen
          """);
      Path file = folder.resolve("net.pt");
      net.save(file.toString());
      return file;
    }
  }

  /** What every module of PyTorch's has, and {@code train()} sets. */
  private static void mode(JitModule module) {
    module.register_attribute("training", new Type.TypePtr(BoolType.get().get()), new IValue(true));
  }

  private static Tensor values(long... shape) {
    float[] values = new float[(int) Tensors.elements(shape)];
    for (int i = 0; i < values.length; i++) {
      values[i] = (float) Math.sin(1.3 * i + 1);
    }
    return Tensors.of(values, shape).set_requires_grad(true);
  }
}
