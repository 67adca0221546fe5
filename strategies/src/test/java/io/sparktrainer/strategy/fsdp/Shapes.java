package io.sparktrainer.strategy.fsdp;

import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.Gpt;
import io.sparktrainer.nn.GptConfig;
import io.sparktrainer.nn.Init;
import io.sparktrainer.nn.Linear;
import io.sparktrainer.nn.ShardUnit;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Tensors;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/** Models with what is unusual in one way or another. */
final class Shapes {
  private Shapes() {}

  /** Two units with one weight: y = x + x W^T in both, in a model with uneven sizes. */
  static final class TiedUnits extends Block {
    private final Linear in = child("in", new Linear(Models.IN, Models.WIDTH));
    private final Owner first = child("first", new Owner());
    private final Borrower second = child("second", new Borrower(first.fc));
    private final Linear out = child("out", new Linear(Models.WIDTH, Models.OUT));

    static final class Owner extends Block implements ShardUnit {
      final Linear fc = child("fc", new Linear(Models.WIDTH, Models.WIDTH));

      @Override
      protected Tensor forward(Tensor... inputs) {
        return inputs[0].add(fc.call(inputs[0]).tanh());
      }
    }

    static final class Borrower extends Block implements ShardUnit {
      private final Tensor weight;
      private final Tensor bias = parameter("bias", Init.constant(0.1, Models.WIDTH));

      Borrower(Linear owner) {
        this.weight = tie("weight", owner.weight());
      }

      @Override
      protected Tensor forward(Tensor... inputs) {
        return inputs[0].add(torch.matmul(inputs[0], weight).add(bias).tanh());
      }
    }

    @Override
    protected Tensor forward(Tensor... inputs) {
      return out.call(second.call(first.call(in.call(inputs[0]))));
    }
  }

  /** A gpt whose head has the weight of its embedding, on the signs and sizes of a row's values. */
  static final class TiedGpt extends Block {
    private final Gpt gpt =
        child(
            "gpt",
            new Gpt(
                GptConfig.builder()
                    .vocab(Models.OUT)
                    .context(Models.IN)
                    .width(8)
                    .heads(2)
                    .layers(2)
                    .tied(true)
                    .build()));

    @Override
    protected Tensor forward(Tensor... inputs) {
      Tensor positive = inputs[0].gt(Tensors.scalar(0.0)).to(DType.INT64.scalarType());
      Tensor tokens = inputs[0].gt(Tensors.scalar(1.0)).to(DType.INT64.scalarType()).add(positive);
      return gpt.call(tokens).sum(1L);
    }
  }

  /** Uses block0 or block1 or both, and block2 or not, as told. */
  static final class Branching extends Models.Stack {
    private boolean[] uses = {true, true, true};

    Branching() {
      super(3);
    }

    void use(boolean... blocksInUse) {
      uses = blocksInUse.clone();
    }

    @Override
    protected Tensor forward(Tensor... inputs) {
      Tensor x = in.call(inputs[0]);
      for (int i = 0; i < uses.length; i++) {
        if (uses[i]) {
          x = blocks.get(i).call(x);
        }
      }
      return out.call(x);
    }
  }

  /** Calls its only unit twice, and has one that it never calls. */
  static final class CalledTwice extends Models.Stack {
    CalledTwice() {
      super(2);
    }

    @Override
    protected Tensor forward(Tensor... inputs) {
      Models.Residual block = blocks.get(0);
      return out.call(block.call(block.call(in.call(inputs[0]))));
    }
  }

  /** A unit with every kind of parameter that is no plain float32 matrix. */
  static final class Odd extends Block implements ShardUnit {
    private final Linear fc = child("fc", new Linear(Models.WIDTH, Models.WIDTH));
    private final Tensor scale = parameter("scale", Init.constant(0.5).view(new long[0]));
    private final Tensor empty = parameter("empty", Init.constant(0, 0, 3));
    private final Tensor transposed =
        parameter("transposed", Init.weight(Models.WIDTH, Models.WIDTH).t());
    private final Tensor wide =
        parameter("wide", Init.weight(Models.WIDTH).to(DType.FLOAT64.scalarType()));
    private final Tensor frozen = parameter("frozen", Init.weight(Models.WIDTH));

    Odd() {
      frozen.set_requires_grad(false);
    }

    Tensor frozen() {
      return frozen;
    }

    @Override
    protected Tensor forward(Tensor... inputs) {
      Tensor x = inputs[0];
      Tensor mixed = torch.matmul(fc.call(x).tanh().mul(scale), transposed).add(frozen);
      Tensor weighted = mixed.to(DType.FLOAT64.scalarType()).mul(wide);
      return x.add(weighted.to(x.scalar_type())).add(empty.sum());
    }
  }

  /** A stack around an {@link Odd} unit. */
  static final class OddStack extends Block {
    private final Linear in = child("in", new Linear(Models.IN, Models.WIDTH));
    final Odd odd = child("odd", new Odd());
    private final Linear out = child("out", new Linear(Models.WIDTH, Models.OUT));

    @Override
    protected Tensor forward(Tensor... inputs) {
      return out.call(odd.call(in.call(inputs[0])));
    }
  }

  /** A unit inside a unit. */
  static final class Nested extends Block {
    private final Linear in = child("in", new Linear(Models.IN, Models.WIDTH));
    private final Outer outer = child("outer", new Outer());
    private final Models.Residual last = child("last", new Models.Residual(Models.WIDTH));
    private final Linear out = child("out", new Linear(Models.WIDTH, Models.OUT));

    static final class Outer extends Block implements ShardUnit {
      private final Linear fc = child("fc", new Linear(Models.WIDTH, Models.WIDTH));
      private final Models.Residual first = child("first", new Models.Residual(Models.WIDTH));
      private final Models.Residual second = child("second", new Models.Residual(Models.WIDTH));

      @Override
      protected Tensor forward(Tensor... inputs) {
        return fc.call(second.call(fc.call(first.call(inputs[0])))).tanh();
      }
    }

    @Override
    protected Tensor forward(Tensor... inputs) {
      return out.call(last.call(outer.call(in.call(inputs[0]))));
    }
  }

  /** A unit whose output is its input, and one whose output is a view of its weight. */
  static final class Aliases extends Block {
    private final Linear in = child("in", new Linear(Models.IN, Models.WIDTH));
    private final Identity identity = child("identity", new Identity());
    private final Lookup lookup = child("lookup", new Lookup());
    private final Linear out = child("out", new Linear(Models.WIDTH, Models.OUT));

    static final class Identity extends Block implements ShardUnit {
      private final Linear unused = child("unused", new Linear(3, 3));

      @Override
      protected Tensor forward(Tensor... inputs) {
        return inputs[0];
      }

      Tensor weight() {
        return unused.weight();
      }
    }

    static final class Lookup extends Block implements ShardUnit {
      private final Tensor rows = parameter("rows", Init.weight(3, Models.WIDTH));

      @Override
      protected Tensor forward(Tensor... inputs) {
        return rows.narrow(0, 1, 1);
      }
    }

    @Override
    protected Tensor forward(Tensor... inputs) {
      Tensor x = identity.call(in.call(inputs[0]));
      return out.call(x.add(lookup.call(x)));
    }
  }
}
