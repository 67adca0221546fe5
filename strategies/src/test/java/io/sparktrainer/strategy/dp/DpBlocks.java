package io.sparktrainer.strategy.dp;

import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.Dropout;
import io.sparktrainer.nn.Linear;
import io.sparktrainer.nn.Mlp;
import io.sparktrainer.torch.Tensors;
import java.util.List;
import java.util.function.Consumer;
import java.util.stream.IntStream;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorVector;
import org.bytedeco.pytorch.global.torch;

/** Models and batches for tests of dp. */
final class DpBlocks {
  private DpBlocks() {}

  static Mlp mlp() {
    return new Mlp(4, List.of(6), 3);
  }

  static Tensor rows(int seed, int rows) {
    float[] values = new float[rows * 4];
    for (int i = 0; i < values.length; i++) {
      values[i] = (float) Math.sin(i * 0.7 + seed);
    }
    return Tensors.of(values, rows, 4);
  }

  static Tensor images(int rows) {
    return torch
        .cat(
            new TensorVector(
                IntStream.range(0, 16).mapToObj(i -> rows(i, rows)).toArray(Tensor[]::new)),
            1)
        .view(rows, 1, 8, 8);
  }

  static Tensor target(int rows) {
    long[] classes = new long[rows];
    for (int i = 0; i < rows; i++) {
      classes[i] = i % 3;
    }
    return Tensors.of(classes, rows);
  }

  static final class Observing extends Block {
    private final Linear linear = child("linear", new Linear(4, 3));
    private final Consumer<Block> observer;

    Observing(Consumer<Block> observer) {
      this.observer = observer;
    }

    @Override
    protected Tensor forward(Tensor... inputs) {
      observer.accept(this);
      return linear.call(inputs[0]);
    }
  }

  static final class Averaging extends Block {
    private final Linear linear = child("linear", new Linear(4, 3));

    @Override
    protected Tensor forward(Tensor... inputs) {
      return linear.call(inputs[0]).mean();
    }
  }

  static final class Dropping extends Block {
    private final Dropout dropout = child("dropout", new Dropout(0.5));

    Dropping() {
      child("linear", new Linear(2, 2));
    }

    @Override
    protected Tensor forward(Tensor... inputs) {
      return dropout.call(inputs[0]);
    }
  }

  static final class Forked extends Block {
    private final Linear used = child("used", new Linear(4, 3));

    Forked() {
      child("idle", new Linear(4, 3));
    }

    @Override
    protected Tensor forward(Tensor... inputs) {
      return used.call(inputs[0]);
    }
  }

  static final class Picky extends Block {
    private final Linear linear = child("linear", new Linear(4, 3));

    @Override
    protected Tensor forward(Tensor... inputs) {
      if (inputs[0].max().item_double() > 9) {
        throw new UnsupportedOperationException("row out of range");
      }
      return linear.call(inputs[0]);
    }
  }
}
