package io.sparktrainer.nn;

import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * One pre-norm transformer block: attention, then two linear layers with GELU (exact) between them,
 * four times as wide inside; each adds to its input. Input and output [n, tokens, width].
 */
public final class GptBlock extends Block implements ShardUnit {
  private final LayerNorm ln1;
  private final CausalSelfAttention attention;
  private final LayerNorm ln2;
  private final Linear fc;
  private final Linear out;
  private final Dropout dropout;

  GptBlock(GptConfig config) {
    long width = config.width();
    // The sum of all layers' contributions then starts with the deviation of a single one.
    double projectionDeviation = Gpt.DEVIATION / Math.sqrt(2.0 * config.layers());
    this.ln1 = child("ln1", new LayerNorm(width));
    this.attention = child("attn", new CausalSelfAttention(config, projectionDeviation));
    this.ln2 = child("ln2", new LayerNorm(width));
    this.fc = child("fc", linear(width, 4 * width, Gpt.DEVIATION));
    this.out = child("out", linear(4 * width, width, projectionDeviation));
    this.dropout = child("dropout", new Dropout(config.dropout()));
  }

  static Linear linear(long in, long out, double deviation) {
    return new Linear(Init.normal(deviation, out, in), Init.constant(0, out));
  }

  @Override
  protected Tensor forward(Tensor... inputs) {
    Tensor x = inputs[0];
    x = x.add(dropout.call(attention.call(ln1.call(x))));
    return x.add(dropout.call(out.call(torch.gelu(fc.call(ln2.call(x))))));
  }
}
