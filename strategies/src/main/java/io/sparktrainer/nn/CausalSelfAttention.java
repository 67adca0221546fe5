package io.sparktrainer.nn;

import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.Tensors;
import org.bytedeco.pytorch.DoubleOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptional;
import org.bytedeco.pytorch.global.torch;

/**
 * Multi-head attention (arXiv 1706.03762) of each token to itself and those before it: input and
 * output [n, tokens, width]. Queries, keys and values come out of one linear layer, in this order.
 */
final class CausalSelfAttention extends Block {
  private final int heads;
  private final double dropoutProbability;
  private final Linear qkv;
  private final Linear proj;
  private final Dropout weightsDropout;

  CausalSelfAttention(GptConfig config, double projectionDeviation) {
    long width = config.width();
    this.heads = config.heads();
    this.dropoutProbability = config.dropout();
    this.qkv = child("qkv", GptBlock.linear(width, 3 * width, Gpt.DEVIATION));
    this.proj = child("proj", GptBlock.linear(width, width, projectionDeviation));
    this.weightsDropout = child("dropout", new Dropout(config.dropout()));
  }

  @Override
  protected Tensor forward(Tensor... inputs) {
    Tensor x = inputs[0];
    long tokens = x.size(1);
    long width = x.size(2);
    Tensor parts =
        qkv.call(x).view(x.size(0), tokens, 3, heads, width / heads).permute(2, 0, 3, 1, 4);
    Tensor mixed = attend(parts.select(0, 0), parts.select(0, 1), parts.select(0, 2));
    return proj.call(mixed.transpose(1, 2).reshape(x.size(0), tokens, width));
  }

  /** All three [n, heads, tokens, width/heads]. */
  private Tensor attend(Tensor query, Tensor key, Tensor value) {
    if (training() && dropoutProbability > 0) {
      return attendWithDropout(query, key, value);
    }
    return torch.scaled_dot_product_attention(
        query, key, value, new TensorOptional(), 0, true, new DoubleOptional(), false);
  }

  /**
   * The fused attention draws from libtorch's own generator; a run is only repeatable with ours.
   */
  private Tensor attendWithDropout(Tensor query, Tensor key, Tensor value) {
    long tokens = query.size(2);
    Tensor scores =
        query.matmul(key.transpose(2, 3)).mul(Tensors.scalar(1 / Math.sqrt(query.size(3))));
    Tensor future =
        torch.ones(new long[] {tokens, tokens}, Device.of(query).options(DType.BOOL)).triu(1);
    Tensor weights =
        scores.masked_fill(future, Tensors.scalar(Double.NEGATIVE_INFINITY)).softmax(-1);
    return weightsDropout.call(weights).matmul(value);
  }
}
