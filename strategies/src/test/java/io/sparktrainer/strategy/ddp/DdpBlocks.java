package io.sparktrainer.strategy.ddp;

import io.sparktrainer.nn.BatchNorm2d;
import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.Linear;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Tensors;
import org.bytedeco.pytorch.BoolOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorVector;
import org.bytedeco.pytorch.global.torch;

/** Models of unusual shape from 20 values per row to 5 outputs. */
final class DdpBlocks {
  private DdpBlocks() {}

  /** Two forward passes through everything, batch normalisation included, before one backward. */
  static final class Twice extends Block {
    private final Linear first = child("first", new Linear(20, 8));
    private final BatchNorm2d norm = child("norm", new BatchNorm2d(8));
    private final Linear second = child("second", new Linear(8, 5));

    @Override
    protected Tensor forward(Tensor... inputs) {
      return once(inputs[0]).add(once(inputs[0].mul(Tensors.scalar(0.5))));
    }

    private Tensor once(Tensor x) {
      Tensor hidden = first.call(x);
      Tensor normal = norm.call(hidden.view(hidden.size(0), 8, 1, 1)).view(hidden.size(0), 8);
      return second.call(torch.relu(normal));
    }
  }

  /** Three forward passes, of which each uses parameters of its own beside the shared ones. */
  static final class ThreeHeads extends Block {
    private final Linear shared = child("shared", new Linear(20, 8));
    private final Linear one = child("one", new Linear(8, 5));
    private final Linear two = child("two", new Linear(8, 5));
    private final Linear three = child("three", new Linear(8, 5));
    private final Linear never = child("never", new Linear(8, 5));

    @Override
    protected Tensor forward(Tensor... inputs) {
      Tensor x = inputs[0];
      Tensor ignored = never.call(shared.call(x));
      assert ignored.defined();
      return one.call(torch.relu(shared.call(x)))
          .add(two.call(torch.tanh(shared.call(x))))
          .add(three.call(torch.sigmoid(shared.call(x))));
    }
  }

  /** Tied, frozen, double, 0-dimensional, empty and transposed parameters in one model. */
  static final class Odd extends Block {
    private final Tensor transposed = parameter("transposed", values(20, 5).t());
    private final Tensor tied = tie("tied", transposed);
    private final Tensor scale = parameter("scale", Tensors.of(new float[] {1.5f}));
    private final Tensor empty = parameter("empty", Tensors.of(new float[0], 0));
    private final Tensor doubles =
        parameter("doubles", values(1, 5).view(5).to(DType.FLOAT64.scalarType()));
    private final Tensor frozen = parameter("frozen", values(1, 5).view(5));

    Odd() {
      frozen.set_requires_grad(false);
    }

    private static Tensor values(int rows, int columns) {
      float[] values = new float[rows * columns];
      for (int i = 0; i < values.length; i++) {
        values[i] = (float) Math.sin(i + 1) * 0.3f;
      }
      return Tensors.of(values, rows, columns);
    }

    @Override
    protected Tensor forward(Tensor... inputs) {
      Tensor x = inputs[0];
      return torch
          .tanh(x.matmul(transposed.t()))
          .add(x.matmul(tied.t()))
          .mul(scale)
          .add(doubles.to(DType.FLOAT32.scalarType()))
          .add(frozen)
          .add(empty.sum());
    }
  }

  /** Scales its output by the square of its own gradient with respect to the input. */
  static final class Penalised extends Block {
    private final Linear first = child("first", new Linear(20, 8));
    private final Linear second = child("second", new Linear(8, 5));

    @Override
    protected Tensor forward(Tensor... inputs) {
      Tensor x = inputs[0].detach().set_requires_grad(true);
      Tensor y = second.call(torch.tanh(first.call(x)));
      Tensor slope =
          torch
              .grad(
                  new TensorVector(y.sum()),
                  new TensorVector(x),
                  new TensorVector(),
                  new BoolOptional(),
                  true,
                  false)
              .get(0);
      long[] lastDim = {1};
      Tensor penalty = slope.square().sum(lastDim).view(x.size(0), 1);
      return y.mul(penalty.add(Tensors.scalar(1)));
    }
  }

  /** Batch normalisation over all rows, with a branch that may be left out. */
  static final class NormThenFork extends Block {
    private final Linear left = child("left", new Linear(20, 5));
    private final BatchNorm2d norm = child("norm", new BatchNorm2d(20));
    private final Linear before = child("before", new Linear(20, 20));
    private final Linear right = child("right", new Linear(20, 5));
    boolean leftOnly;

    @Override
    protected Tensor forward(Tensor... inputs) {
      Tensor hidden = before.call(inputs);
      Tensor x = norm.call(hidden.view(hidden.size(0), 20, 1, 1)).view(hidden.size(0), 20);
      Tensor out = left.call(x);
      return leftOnly ? out : out.add(right.call(x));
    }
  }
}
