package io.sparktrainer.nn;

import io.sparktrainer.strategy.Computation;
import io.sparktrainer.strategy.ComputeOptions;
import io.sparktrainer.strategy.plan.ActivationProbe;
import io.sparktrainer.testing.ProcessGrowth;
import io.sparktrainer.testing.Stack;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Rng;
import io.sparktrainer.torch.Tensors;
import io.sparktrainer.torch.Threads;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * A process of its own that trains a deep model for some steps, checkpointed or not, and prints by
 * how many bytes its resident size peaked above where the first step started, and what the planner
 * finds of activations.
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

  public static void main(String[] arguments) {
    Threads.use(1);
    Rng.seed(1);
    try (Stack model = new Stack(LAYERS, Layer::new)) {
      ComputeOptions options =
          ComputeOptions.builder()
              .activationCheckpointing(
                  arguments[0].equals("checkpointed") ? CheckpointPolicy.units() : null)
              .build();
      Loss loss = (output, target) -> output.square().mean();
      // A small pass first: libraries and what they keep are there before the count begins.
      train(model, input(1), loss, options);
      model.parameters().values().forEach(Tensors::clearGrad);
      try (Tensor x = NativeScope.keep(input(ROWS))) {
        ProcessGrowth growth = ProcessGrowth.start();
        double sum = 0;
        for (int step = 0; step < 2; step++) {
          sum += train(model, x, loss, options);
        }
        System.out.println("peak=" + growth.peak());
        System.out.println("loss=" + sum);
        model
            .parameters()
            .forEach(
                (name, tensor) ->
                    System.out.println("gradient=" + tensor.grad().sum().item_double()));
        System.out.println(
            "planned=" + ActivationProbe.measure(model, new Tensor[] {x}, x, loss, options));
      }
    }
  }

  private static double train(Block model, Tensor x, Loss loss, ComputeOptions options) {
    try (var scope = NativeScope.open();
        Computation computation = new Computation(model, options)) {
      Tensor value = computation.loss(new Tensor[] {x}, x, loss);
      value.backward();
      computation.release();
      return value.item_double();
    }
  }

  private static Tensor input(int rows) {
    float[] values = new float[rows * WIDTH];
    for (int i = 0; i < values.length; i++) {
      values[i] = (float) Math.sin(i);
    }
    return Tensors.of(values, rows, WIDTH);
  }

  private static final class Layer extends Block implements ShardUnit {
    private final Linear linear = child("linear", new Linear(WIDTH, WIDTH));

    @Override
    protected Tensor forward(Tensor... inputs) {
      Tensor x = torch.sigmoid(linear.call(inputs[0]));
      return inputs[0].add(torch.tanh(x).mul(x));
    }
  }
}
