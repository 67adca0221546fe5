package io.sparktrainer.spark.config;

import static java.util.Objects.requireNonNull;

import io.sparktrainer.nn.GptConfig;
import java.io.Serializable;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Section {@code model}: what is trained. */
public sealed interface ModelSpec extends Serializable {
  /** Outputs per row, or null to take them from the data and the loss. */
  @Nullable Integer outputs();

  /**
   * Linear layers with ReLU between them.
   *
   * @param hidden width of each hidden layer; empty for a linear model
   * @param outputs see {@link ModelSpec#outputs()}
   */
  record Mlp(List<Integer> hidden, @Nullable Integer outputs) implements ModelSpec {
    public Mlp {
      hidden = List.copyOf(hidden);
      hidden.forEach(width -> requirePositive("hidden", width));
      requirePositive("outputs", outputs);
    }

    public Mlp(Integer... hidden) {
      this(List.of(hidden), null);
    }
  }

  /**
   * Two convolutions with batch normalisation, then two linear layers, for rows of shape [channels,
   * height, width].
   *
   * @param filters channels after the first convolution; the second has twice as many
   * @param outputs see {@link ModelSpec#outputs()}
   */
  record Cnn(int filters, @Nullable Integer outputs) implements ModelSpec {
    static final int DEFAULT_FILTERS = 16;

    public Cnn {
      requirePositive("filters", filters);
      requirePositive("outputs", outputs);
    }

    public Cnn() {
      this(DEFAULT_FILTERS, null);
    }
  }

  /**
   * For tables of numbers and categories: an embedding per category column, batch normalisation of
   * the numbers, then linear layers with ReLU between them.
   *
   * @param hidden width of each hidden layer
   * @param embeddings number of categories by column; those of other columns are counted in the
   *     data
   * @param embeddingWidth width of every embedding, or null for half the categories, at most 50
   * @param dropout part of the concatenated values that training leaves out
   * @param outputs see {@link ModelSpec#outputs()}
   */
  record Tabular(
      List<Integer> hidden,
      Map<String, Integer> embeddings,
      @Nullable Integer embeddingWidth,
      double dropout,
      @Nullable Integer outputs)
      implements ModelSpec {
    public Tabular {
      hidden = List.copyOf(hidden);
      hidden.forEach(width -> requirePositive("hidden", width));
      embeddings = Collections.unmodifiableMap(new LinkedHashMap<>(embeddings));
      embeddings.forEach((column, size) -> requirePositive("embeddings." + column, size));
      requirePositive("embedding_width", embeddingWidth);
      requirePositive("outputs", outputs);
    }

    /** Everything but the hidden layers by default. */
    public Tabular(Integer... hidden) {
      this(List.of(hidden), Map.of(), null, 0, null);
    }
  }

  /**
   * A class of the application's: a public subclass of {@link io.sparktrainer.nn.Block} with a
   * public constructor that takes a {@code ModelShape}, or nothing.
   *
   * @param name fully qualified name
   * @param outputs see {@link ModelSpec#outputs()}
   */
  record OfClass(String name, @Nullable Integer outputs) implements ModelSpec {
    public OfClass {
      requireNonNull(name, "name");
      requirePositive("outputs", outputs);
    }

    public OfClass(Class<?> type) {
      this(type.getName(), null);
    }
  }

  /**
   * A model that PyTorch saved with {@code torch.jit.save}.
   *
   * @param path file that driver and executors can read, on any file system that Hadoop reaches
   * @param outputs see {@link ModelSpec#outputs()}
   */
  record TorchScript(String path, @Nullable Integer outputs) implements ModelSpec {
    public TorchScript {
      requireNonNull(path, "path");
      requirePositive("outputs", outputs);
    }
  }

  /**
   * A transformer for sequences of tokens: rows are token numbers [tokens], labels the tokens to
   * predict [tokens].
   *
   * @param sizes vocabulary, context, width, heads, layers
   */
  record Gpt(GptConfig sizes) implements ModelSpec {
    public Gpt {
      requireNonNull(sizes, "sizes");
    }

    @Override
    public Integer outputs() {
      return sizes.vocab();
    }
  }

  private static void requirePositive(String key, @Nullable Integer value) {
    if (value != null && value < 1) {
      throw new IllegalArgumentException(
          "Cannot use %s %d: expected at least 1.".formatted(key, value));
    }
  }
}
