package io.sparktrainer.nn;

import java.util.ArrayList;
import java.util.List;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * Linear layers {@code fc1, fc2, ...} with ReLU between them. Input [n, ...], flattened to [n, in];
 * output [n, out].
 */
public final class Mlp extends Block {
  private final List<Linear> layers = new ArrayList<>();

  /**
   * @param in values per row
   * @param hidden width of each hidden layer; empty for a linear model
   * @param out outputs per row
   */
  public Mlp(long in, List<Integer> hidden, long out) {
    long width = in;
    for (int next : hidden) {
      add(width, next);
      width = next;
    }
    add(width, out);
  }

  private void add(long in, long out) {
    if (in < 1 || out < 1) {
      throw new IllegalArgumentException(
          "Cannot make an mlp: expected widths of at least 1, got " + in + " to " + out + ".");
    }
    layers.add(child("fc" + (layers.size() + 1), new Linear(in, out)));
  }

  @Override
  protected Tensor forward(Tensor... inputs) {
    Tensor x = inputs[0].dim() == 2 ? inputs[0] : inputs[0].flatten(1, -1);
    for (int i = 0; i < layers.size(); i++) {
      x = layers.get(i).call(i == 0 ? x : torch.relu(x));
    }
    return x;
  }
}
