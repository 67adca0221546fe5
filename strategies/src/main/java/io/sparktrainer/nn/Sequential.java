package io.sparktrainer.nn;

import java.util.List;
import org.bytedeco.pytorch.Tensor;

/** Blocks called one after the other, each with the output of the one before: {@code 0, 1, ...}. */
public final class Sequential extends Block {
  private final List<Block> blocks;

  public Sequential(List<? extends Block> blocks) {
    this.blocks = List.copyOf(blocks);
    for (int i = 0; i < this.blocks.size(); i++) {
      child(Integer.toString(i), this.blocks.get(i));
    }
  }

  @Override
  protected Tensor forward(Tensor... inputs) {
    Tensor x = inputs[0];
    for (Block block : blocks) {
      x = block.call(x);
    }
    return x;
  }
}
