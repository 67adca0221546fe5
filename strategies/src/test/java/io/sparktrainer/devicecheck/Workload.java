package io.sparktrainer.devicecheck;

import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.Cnn;
import io.sparktrainer.nn.Gpt;
import io.sparktrainer.nn.GptConfig;
import io.sparktrainer.nn.Mlp;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.Rng;
import io.sparktrainer.torch.Tensors;
import java.util.Collections;
import org.bytedeco.pytorch.Tensor;

/** A model with one batch for it; {@code eager.py} has the same ones for PyTorch. */
enum Workload {
  /** Two convolutions, 32 filters, on 28x28 pixels; batch 512. */
  CNN {
    @Override
    Block model(Size size) {
      return new Cnn(1, 28, 28, 32, 10);
    }

    @Override
    Tensor input(Size size) {
      return normal(size == Size.FULL ? 512 : 8, 1, 28, 28);
    }

    @Override
    Tensor target(Size size) {
      return numbers(10, size == Size.FULL ? 512 : 8);
    }
  },
  /** 12 layers, width 768, vocabulary 8192, context 256; batch 16. */
  GPT {
    @Override
    Block model(Size size) {
      return new Gpt(
          size == Size.FULL
              ? GptConfig.builder().vocab(8192).context(256).width(768).heads(12).layers(12).build()
              : GptConfig.builder().vocab(64).context(16).width(32).heads(4).layers(2).build());
    }

    @Override
    Tensor input(Size size) {
      return size == Size.FULL ? numbers(8192, 16, 256) : numbers(64, 2, 16);
    }

    @Override
    Tensor target(Size size) {
      return input(size);
    }
  },
  /** Linear layers alone, whose activations are small beside their parameters. */
  MLP {
    @Override
    Block model(Size size) {
      int width = size == Size.FULL ? 2048 : 64;
      return new Mlp(width, Collections.nCopies(12, width), width);
    }

    @Override
    Tensor input(Size size) {
      return normal(2, size == Size.FULL ? 2048 : 64);
    }

    @Override
    Tensor target(Size size) {
      return numbers(size == Size.FULL ? 2048 : 64, 2);
    }
  };

  /** How large models and batches are. */
  enum Size {
    FULL,
    /** For trying the program itself. */
    SMALL
  }

  abstract Block model(Size size);

  abstract Tensor input(Size size);

  abstract Tensor target(Size size);

  private static Tensor normal(long... shape) {
    return Tensors.empty(DType.FLOAT32, Device.CPU, shape).normal_(0, 1, Rng.generator());
  }

  /** Whole numbers below {@code limit}, each one more than the one before. */
  private static Tensor numbers(long limit, long... shape) {
    long[] values = new long[(int) Tensors.elements(shape)];
    for (int i = 0; i < values.length; i++) {
      values[i] = i % limit;
    }
    return Tensors.of(values, shape);
  }
}
