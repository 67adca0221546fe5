package io.sparktrainer.strategy.dp;

import io.sparktrainer.nn.Block;
import io.sparktrainer.strategy.Computation;
import io.sparktrainer.strategy.ComputeOptions;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.Gradients;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.bytedeco.pytorch.Tensor;

/**
 * A second model that follows the root: same parameter values (the same memory, where both are on
 * one device), copies of its buffers, same modes. Its gradients are its own. It is a whole {@link
 * Block} with parameters of its own, unlike a replica of PyTorch's, which has none.
 */
final class Replica implements AutoCloseable {
  private final Block root;
  private final Block model;
  private final Device device;
  private final Computation computation;
  private final Map<Tensor, Tensor> parameters = new LinkedHashMap<>(); // root's, ours
  private final Map<Tensor, Tensor> buffers = new LinkedHashMap<>();

  /**
   * Takes over {@code model}.
   *
   * @throws IllegalArgumentException if {@code model} is not built like {@code root}
   */
  Replica(Block root, Block model, Device device, ComputeOptions options) {
    this.root = root;
    this.model = model;
    this.device = device;
    requireTwin();
    pair(root.parameters(), model.parameters(), parameters);
    pair(root.buffers(), model.buffers(), buffers);
    this.computation = new Computation(model, options);
    follow();
  }

  private void requireTwin() {
    List<String> expected = describe(root);
    List<String> got = describe(model);
    if (root == model || !expected.equals(got)) {
      throw new IllegalArgumentException(
          "Cannot replicate %s: expected the model's factory to return a new model of the same structure each time, got %s."
              .formatted(root, root == model ? "the same object" : got + " beside " + expected));
    }
  }

  private static List<String> describe(Block block) {
    List<String> lines = new ArrayList<>();
    block
        .state()
        .forEach((name, tensor) -> lines.add(name + Arrays.toString(Tensors.shape(tensor))));
    return lines;
  }

  private static void pair(
      Map<String, Tensor> roots, Map<String, Tensor> ours, Map<Tensor, Tensor> pairs) {
    roots.forEach((name, tensor) -> pairs.put(tensor, ours.get(name)));
  }

  Block model() {
    return model;
  }

  Computation computation() {
    return computation;
  }

  Device device() {
    return device;
  }

  /** The replica's parameter that follows the root's {@code parameter}. */
  Tensor twin(Tensor parameter) {
    return Objects.requireNonNull(parameters.get(parameter), "twin");
  }

  /** Takes over what has changed in the root since the last forward pass. */
  void follow() {
    try (var scope = NativeScope.open();
        var off = Gradients.off()) {
      parameters.forEach(this::followParameter);
      buffers.forEach(this::followBuffer);
    }
    followModes();
  }

  private void followParameter(Tensor source, Tensor twin) {
    if (!Device.of(source).equals(device)) {
      twin.set_data(source.detach().to(device.toNative(), source.scalar_type()));
    } else if (source.data_ptr().address() != twin.data_ptr().address()) {
      twin.set_data(source.detach());
    }
    if (twin.requires_grad() != source.requires_grad()) {
      twin.set_requires_grad(source.requires_grad());
    }
  }

  private void followBuffer(Tensor source, Tensor twin) {
    if (!Device.of(twin).equals(device)) {
      twin.set_data(source.detach().to(device.toNative(), source.scalar_type()));
    } else {
      Tensors.overwrite(twin, source);
    }
  }

  private void followModes() {
    Map<String, Block> mine = model.blocks();
    // Parents come first, so a child's own mode has the last word.
    root.blocks()
        .forEach(
            (name, block) -> {
              Block twin = mine.get(name);
              if (twin != null && twin.training() != block.training()) {
                if (block.training()) {
                  twin.train();
                } else {
                  twin.eval();
                }
              }
            });
  }

  @Override
  public void close() {
    computation.close();
    model.close();
  }
}
