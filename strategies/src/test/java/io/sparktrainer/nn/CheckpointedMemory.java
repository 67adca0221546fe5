package io.sparktrainer.nn;

import io.sparktrainer.testing.Memory;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Rng;
import io.sparktrainer.torch.Tensors;
import io.sparktrainer.torch.Threads;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * A process of its own that trains a deep model for some steps, checkpointed or not, and prints by
 * how many bytes its resident size peaked above where the first step started.
 */
final class CheckpointedMemory {
  static final int LAYERS = 24;
  static final int ROWS = 8192;
  static final int WIDTH = 128;

  /** One activation tensor: rows x width in float32. */
  static final long ACTIVATION_BYTES = 4L * ROWS * WIDTH;

  /** Tensors of that size that a layer saves for backward: its input, the sigmoid and the tanh. */
  static final int SAVED_PER_LAYER = 3;

  private CheckpointedMemory() {}

  public static void main(String[] arguments) throws IOException {
    Threads.use(1);
    Rng.seed(1);
    try (Deep model = new Deep()) {
      if (arguments[0].equals("checkpointed")) {
        ActivationCheckpointing.install(model, CheckpointPolicy.units());
      }
      float[] values = new float[ROWS * WIDTH];
      for (int i = 0; i < values.length; i++) {
        values[i] = (float) Math.sin(i);
      }
      long start = Memory.residentBytes();
      double loss = 0;
      for (int step = 0; step < 2; step++) {
        try (var scope = NativeScope.open()) {
          Tensor value = model.call(Tensors.of(values, ROWS, WIDTH)).square().mean();
          value.backward();
          loss += value.item_double();
        }
      }
      System.out.println("peak=" + (peakBytes() - start));
      System.out.println("loss=" + loss);
      model
          .parameters()
          .forEach(
              (name, tensor) ->
                  System.out.println("gradient=" + tensor.grad().sum().item_double()));
    }
  }

  private static long peakBytes() throws IOException {
    try (var lines = Files.lines(Path.of("/proc/self/status"))) {
      return lines
              .filter(line -> line.startsWith("VmHWM:"))
              .mapToLong(line -> Long.parseLong(line.replaceAll("\\D", "")))
              .findFirst()
              .orElseThrow()
          * 1024;
    }
  }

  private static final class Layer extends Block implements ShardUnit {
    private final Linear linear = child("linear", new Linear(WIDTH, WIDTH));

    @Override
    protected Tensor forward(Tensor... inputs) {
      Tensor x = torch.sigmoid(linear.call(inputs[0]));
      return inputs[0].add(torch.tanh(x).mul(x));
    }
  }

  private static final class Deep extends Block {
    private final List<Layer> layers = new ArrayList<>();

    private Deep() {
      for (int i = 0; i < LAYERS; i++) {
        layers.add(child("layer" + i, new Layer()));
      }
    }

    @Override
    protected Tensor forward(Tensor... inputs) {
      Tensor x = inputs[0];
      for (Layer layer : layers) {
        x = layer.call(x);
      }
      return x;
    }
  }
}
