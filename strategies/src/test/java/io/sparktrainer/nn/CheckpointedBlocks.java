package io.sparktrainer.nn;

import io.sparktrainer.testing.Stack;
import io.sparktrainer.torch.DType;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/** Blocks to checkpoint, for inputs of six columns. */
final class CheckpointedBlocks {
  private CheckpointedBlocks() {}

  /** {@link Layer}s in a row. */
  static Stack stack(int layers) {
    return new Stack(layers, () -> new Layer(6));
  }

  static final class Layer extends Block {
    private final Linear linear;
    private final Dropout dropout;

    Layer(long width) {
      this.linear = child("linear", new Linear(width, width));
      this.dropout = child("dropout", new Dropout(0.3));
    }

    @Override
    protected Tensor forward(Tensor... inputs) {
      return inputs[0].add(dropout.call(torch.tanh(linear.call(inputs[0]))));
    }
  }

  /** Takes activations, a mask of whole numbers, and a 0-dimensional scale. */
  static final class Gate extends Block {
    private final Linear linear = child("linear", new Linear(6, 6));

    @Override
    protected Tensor forward(Tensor... inputs) {
      Tensor mask = inputs[1].unsqueeze(1).to(DType.FLOAT32.scalarType());
      return linear.call(inputs[0]).mul(mask).mul(inputs[2]);
    }
  }

  static final class Gated extends Block {
    private final Linear first = child("first", new Linear(6, 6));
    private final Gate gate = child("gate", new Gate());

    @Override
    protected Tensor forward(Tensor... inputs) {
      Tensor x = first.call(inputs[0]);
      return gate.call(x, inputs[1], x.mean());
    }
  }

  static final class Holder extends Block {
    private final Tensor weight;

    Holder(Tensor weight) {
      this.weight = tie("weight", weight);
    }

    @Override
    protected Tensor forward(Tensor... inputs) {
      return torch.tanh(inputs[0].matmul(weight));
    }
  }

  static final class Tied extends Block {
    private final Tensor weight = parameter("weight", Init.normal(0.5, 6, 6));
    private final Holder inner = child("inner", new Holder(weight));

    @Override
    protected Tensor forward(Tensor... inputs) {
      Tensor x = inner.call(inputs[0].matmul(weight));
      return inner.call(x).matmul(weight.t());
    }
  }

  static final class Partial extends Block {
    private final Linear used = child("used", new Linear(6, 6));

    Partial() {
      child("idle", new Linear(6, 6));
    }

    @Override
    protected Tensor forward(Tensor... inputs) {
      return used.call(inputs[0]);
    }
  }

  static final class Fragile extends Block {
    private final Linear linear = child("linear", new Linear(6, 6));
    private int calls;

    @Override
    protected Tensor forward(Tensor... inputs) {
      if (calls++ > 0) {
        throw new UnsupportedOperationException("once only");
      }
      return linear.call(inputs[0]);
    }
  }

  static final class Borrowing extends Block {
    private final Tensor weight = parameter("weight", Init.normal(0.5, 6, 6));
    private final Block inner =
        child(
            "inner",
            new Block() {
              @Override
              protected Tensor forward(Tensor... inputs) {
                return inputs[0].matmul(weight);
              }
            });

    @Override
    protected Tensor forward(Tensor... inputs) {
      return inner.call(inputs[0]);
    }
  }
}
