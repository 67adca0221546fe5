package io.sparktrainer.nn;

import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.Tensors;
import java.util.ArrayList;
import java.util.List;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * A decoder-only transformer (GPT-2, Radford et al., 2019) with learned positions, pre-norm blocks
 * and a final norm. Input [n, tokens] of token numbers, of any integer type or float whole numbers;
 * output [n, tokens, vocab], scores of the next token.
 *
 * <p>Starts as GPT-2 does: weights normal with deviation 0.02, those that end a residual branch
 * smaller by 1/sqrt(2 layers), biases zero.
 */
public final class Gpt extends Block {
  static final double DEVIATION = 0.02;

  private final GptConfig config;
  private final Embedding wte;
  private final Embedding wpe;
  private final Sequential blocks;
  private final LayerNorm lnF;
  private final Dropout dropout;
  private final Linear head;

  public Gpt(GptConfig config) {
    this.config = config;
    long width = config.width();
    this.wte = child("wte", new Embedding(Init.normal(DEVIATION, config.vocab(), width)));
    this.wpe = child("wpe", new Embedding(Init.normal(DEVIATION, config.context(), width)));
    List<GptBlock> layers = new ArrayList<>();
    for (int i = 0; i < config.layers(); i++) {
      layers.add(new GptBlock(config));
    }
    this.blocks = child("blocks", new Sequential(layers));
    this.lnF = child("ln_f", new LayerNorm(width));
    this.dropout = child("dropout", new Dropout(config.dropout()));
    this.head =
        child(
            "head",
            config.tied()
                ? Linear.tiedTo(wte.weight())
                : new Linear(Init.normal(DEVIATION, config.vocab(), width), null));
  }

  public GptConfig config() {
    return config;
  }

  /**
   * @throws IllegalArgumentException if the input is not [n, tokens] with at most {@code context}
   *     tokens
   */
  @Override
  protected Tensor forward(Tensor... inputs) {
    Tensor tokens = inputs[0];
    if (tokens.dim() != 2 || tokens.size(1) > config.context()) {
      throw new IllegalArgumentException(
          "Cannot run a gpt: expected token numbers [n, tokens] with at most %d tokens, got %s. Cut the sequences, or make the context longer."
              .formatted(config.context(), Tensors.describe(tokens)));
    }
    Tensor positions =
        torch.arange(new Scalar(tokens.size(1)), Device.of(tokens).options(DType.INT64));
    Tensor x = dropout.call(wte.call(tokens).add(wpe.call(positions)));
    return head.call(lnF.call(blocks.call(x)));
  }
}
