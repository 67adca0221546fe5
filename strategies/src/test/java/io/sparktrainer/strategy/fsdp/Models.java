package io.sparktrainer.strategy.fsdp;

import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.Linear;
import io.sparktrainer.nn.ShardUnit;
import io.sparktrainer.torch.Rng;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;
import org.bytedeco.pytorch.Tensor;

/** Small models with units. */
final class Models {
  static final int IN = 5;
  static final int OUT = 3;
  static final int WIDTH = 7;

  private Models() {}

  /** A model whose first values only depend on {@code seed}. */
  static <B extends Block> B seeded(long seed, Supplier<B> maker) {
    Rng.seed(seed);
    return maker.get();
  }

  /** x + fc2(tanh(fc1(x))), [rows, width]. */
  static final class Residual extends Block implements ShardUnit {
    private final Linear fc1;
    private final Linear fc2;

    Residual(int width) {
      this.fc1 = child("fc1", new Linear(width, 2L * width));
      this.fc2 = child("fc2", new Linear(2L * width, width));
    }

    @Override
    protected Tensor forward(Tensor... inputs) {
      return inputs[0].add(fc2.call(fc1.call(inputs[0]).tanh()));
    }
  }

  /** in, blocks, out; how the blocks are called is the subclass's business. */
  static class Stack extends Block {
    final Linear in;
    final List<Residual> blocks = new ArrayList<>();
    final Linear out;

    Stack(int depth) {
      this(depth, WIDTH);
    }

    Stack(int depth, int width) {
      this.in = child("in", new Linear(IN, width));
      for (int i = 0; i < depth; i++) {
        blocks.add(child("block" + i, new Residual(width)));
      }
      this.out = child("out", new Linear(width, OUT));
    }

    @Override
    protected Tensor forward(Tensor... inputs) {
      Tensor x = in.call(inputs[0]);
      for (Residual block : blocks) {
        x = block.call(x);
      }
      return out.call(x);
    }
  }
}
