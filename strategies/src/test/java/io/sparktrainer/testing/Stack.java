package io.sparktrainer.testing;

import io.sparktrainer.nn.Block;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;
import org.bytedeco.pytorch.Tensor;

/** Layers in a row, children {@code layer0}, {@code layer1} and so on. */
public final class Stack extends Block {
  private final List<Block> layers = new ArrayList<>();

  public Stack(int count, Supplier<? extends Block> layer) {
    for (int i = 0; i < count; i++) {
      layers.add(child("layer" + i, layer.get()));
    }
  }

  @Override
  protected Tensor forward(Tensor... inputs) {
    Tensor x = inputs[0];
    for (Block layer : layers) {
      x = layer.call(x);
    }
    return x;
  }
}
