package io.sparktrainer.nn;

import java.io.Serializable;

/**
 * Sizes of a {@link Gpt}.
 *
 * @param vocab number of different tokens
 * @param context longest sequence, in tokens
 * @param width values per token, a multiple of {@code heads}
 * @param heads attention heads per block
 * @param layers transformer blocks
 * @param tied whether the output layer uses the token embedding's weight, default false
 * @param dropout probability in [0, 1), default 0
 */
public record GptConfig(
    int vocab, int context, int width, int heads, int layers, boolean tied, double dropout)
    implements Serializable {
  public GptConfig {
    if (Math.min(Math.min(vocab, context), Math.min(heads, layers)) < 1 || width < heads) {
      throw new IllegalArgumentException(
          "Cannot make a gpt: expected vocab, context, heads and layers of at least 1 and a width of at least one value per head, got vocab %d, context %d, width %d, heads %d, layers %d."
              .formatted(vocab, context, width, heads, layers));
    }
    if (width % heads != 0) {
      throw new IllegalArgumentException(
          "Cannot make a gpt: expected a width that is a multiple of %d heads, got %d."
              .formatted(heads, width));
    }
    if (!(dropout >= 0 && dropout < 1)) {
      throw new IllegalArgumentException(
          "Cannot make a gpt: expected dropout in [0, 1), got " + dropout + ".");
    }
  }

  public static Builder builder() {
    return new Builder();
  }

  /** Sets sizes by name; they start at those of a small character model. */
  public static final class Builder {
    private int vocab = 65;
    private int context = 128;
    private int width = 128;
    private int heads = 4;
    private int layers = 4;
    private boolean tied;
    private double dropout;

    private Builder() {}

    public Builder vocab(int tokens) {
      this.vocab = tokens;
      return this;
    }

    public Builder context(int tokens) {
      this.context = tokens;
      return this;
    }

    public Builder width(int values) {
      this.width = values;
      return this;
    }

    public Builder heads(int count) {
      this.heads = count;
      return this;
    }

    public Builder layers(int count) {
      this.layers = count;
      return this;
    }

    public Builder tied(boolean value) {
      this.tied = value;
      return this;
    }

    public Builder dropout(double probability) {
      this.dropout = probability;
      return this;
    }

    /**
     * @throws IllegalArgumentException if a size is out of its range
     */
    public GptConfig build() {
      return new GptConfig(vocab, context, width, heads, layers, tied, dropout);
    }
  }
}
