package io.sparktrainer.parity;

import io.sparktrainer.nn.BatchNorm2d;
import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.Conv2d;
import io.sparktrainer.nn.Gpt;
import io.sparktrainer.nn.GptConfig;
import io.sparktrainer.nn.Linear;
import io.sparktrainer.nn.Mlp;
import io.sparktrainer.torch.Tensors;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/** The models of the golden cases; their sizes are those of the state they start from. */
final class GoldenModels {
  static final Set<String> NAMES = Set.of("mlp", "branchy", "cnn-bn", "gpt", "gpt-tied");

  private GoldenModels() {}

  static Block create(GoldenCase golden, Map<String, Tensor> state) {
    return switch (golden.model()) {
      case "mlp" -> mlp(state);
      case "branchy" -> new Branchy(state);
      case "cnn-bn" -> new CnnBn(state);
      case "gpt" -> gpt(golden, state, false);
      case "gpt-tied" -> gpt(golden, state, true);
      default -> throw new IllegalArgumentException("No model " + golden.model());
    };
  }

  private static long size(Map<String, Tensor> state, String name, int axis) {
    return Tensors.shape(state.get(name))[axis];
  }

  private static Linear linear(Map<String, Tensor> state, String name) {
    return new Linear(size(state, name + ".weight", 1), size(state, name + ".weight", 0));
  }

  private static Conv2d conv(Map<String, Tensor> state, String name, long stride, long padding) {
    String weight = name + ".weight";
    return new Conv2d(
        size(state, weight, 1), size(state, weight, 0), size(state, weight, 2), stride, padding);
  }

  private static Mlp mlp(Map<String, Tensor> state) {
    List<Integer> widths = new ArrayList<>();
    for (int layer = 1; state.containsKey("fc" + layer + ".weight"); layer++) {
      widths.add((int) size(state, "fc" + layer + ".weight", 0));
    }
    int out = widths.remove(widths.size() - 1);
    return new Mlp(size(state, "fc1.weight", 1), widths, out);
  }

  private static Gpt gpt(GoldenCase golden, Map<String, Tensor> state, boolean tied) {
    int layers = 0;
    while (state.containsKey("blocks." + layers + ".fc.weight")) {
      layers++;
    }
    return new Gpt(
        GptConfig.builder()
            .vocab((int) size(state, "wte.weight", 0))
            .context((int) size(state, "wpe.weight", 0))
            .width((int) size(state, "wte.weight", 1))
            .heads(golden.heads())
            .layers(layers)
            .tied(tied)
            .build());
  }

  /** Uses one of two layers, in turns. */
  private static final class Branchy extends Block {
    private final Linear inp;
    private final Linear left;
    private final Linear right;
    private final Linear out;
    private int calls;

    Branchy(Map<String, Tensor> state) {
      this.inp = child("inp", linear(state, "inp"));
      this.left = child("left", linear(state, "left"));
      this.right = child("right", linear(state, "right"));
      this.out = child("out", linear(state, "out"));
    }

    @Override
    protected Tensor forward(Tensor... inputs) {
      Linear branch = calls++ % 2 == 0 ? left : right;
      return out.call(torch.relu(branch.call(torch.relu(inp.call(inputs[0])))));
    }
  }

  private static final class CnnBn extends Block {
    private final Conv2d conv1;
    private final BatchNorm2d bn1;
    private final Conv2d conv2;
    private final BatchNorm2d bn2;
    private final Linear fc;

    CnnBn(Map<String, Tensor> state) {
      this.conv1 = child("conv1", conv(state, "conv1", 1, 0));
      this.bn1 = child("bn1", new BatchNorm2d(size(state, "bn1.weight", 0)));
      this.conv2 = child("conv2", conv(state, "conv2", 2, 1));
      this.bn2 = child("bn2", new BatchNorm2d(size(state, "bn2.weight", 0)));
      this.fc = child("fc", linear(state, "fc"));
    }

    @Override
    protected Tensor forward(Tensor... inputs) {
      Tensor x = torch.relu(bn1.call(conv1.call(inputs[0])));
      x = torch.relu(bn2.call(conv2.call(x)));
      return fc.call(x.flatten(2, -1).mean(2));
    }
  }
}
