package io.sparktrainer.nn;

import io.sparktrainer.torch.Tensors;
import java.util.ArrayList;
import java.util.List;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorVector;
import org.bytedeco.pytorch.global.torch;
import org.jspecify.annotations.Nullable;

/**
 * A model for tables with columns of numbers and columns of categories (entity embeddings, arXiv
 * 1604.06737): each category column has an embedding, numbers go through batch normalisation, and
 * all of it together through an {@link Mlp}.
 *
 * <p>Takes one tensor per {@link Columns}, in their order: numbers [n, columns] float, categories
 * [n, columns] of whole numbers from 0. Output [n, out]. Children: {@code norm0, norm1, ...} per
 * input of numbers, {@code embedding0, ...} per category column, {@code mlp}.
 */
public final class Tabular extends Block {
  private static final int WIDEST = 50;

  private final List<Columns> inputs;
  private final List<BatchNorm1d> norms = new ArrayList<>();
  private final List<Embedding> embeddings = new ArrayList<>();
  private final Dropout dropout;
  private final Mlp mlp;

  /** The columns of one input. */
  public sealed interface Columns {
    /** Number of columns. */
    int count();

    /** Trained parameters of the layers that take the columns in. */
    long parameters();
  }

  /**
   * Columns of numbers.
   *
   * @param count at least 1
   */
  public record Numbers(int count) implements Columns {
    public Numbers {
      if (count < 1) {
        throw new IllegalArgumentException(
            "Cannot use columns of numbers: expected at least 1, got " + count + ".");
      }
    }

    @Override
    public long parameters() {
      return 2L * count;
    }
  }

  /**
   * Columns of categories.
   *
   * @param sizes number of categories of each column, at least 1 each
   * @param width width of every embedding, at least 1, or null for {@link #width(int)}
   */
  public record Categories(List<Integer> sizes, @Nullable Integer width) implements Columns {
    public Categories {
      sizes = List.copyOf(sizes);
      boolean valid = !sizes.isEmpty() && sizes.stream().allMatch(size -> size >= 1);
      if (!valid || (width != null && width < 1)) {
        throw new IllegalArgumentException(
            "Cannot use columns of categories: expected at least one, of at least 1 category and with embeddings of at least 1 value, got %s and width %s."
                .formatted(sizes, width == null ? "auto" : width));
      }
    }

    @Override
    public int count() {
      return sizes.size();
    }

    @Override
    public long parameters() {
      return sizes.stream().mapToLong(size -> (long) size * widthOf(size)).sum();
    }

    int widthOf(int size) {
      return width == null ? Tabular.width(size) : width;
    }
  }

  /**
   * @param inputs the model's inputs, at least one
   * @param hidden width of each hidden layer
   * @param dropout part of the embeddings' and numbers' values that training leaves out
   * @param out outputs per row
   * @throws IllegalArgumentException if there are no columns, or a width or {@code out} is below 1
   */
  public Tabular(List<Columns> inputs, List<Integer> hidden, double dropout, long out) {
    this.inputs = List.copyOf(inputs);
    for (Columns columns : inputs) {
      if (columns instanceof Categories categories) {
        for (int size : categories.sizes()) {
          embeddings.add(
              child(
                  "embedding" + embeddings.size(), new Embedding(size, categories.widthOf(size))));
        }
      } else {
        norms.add(child("norm" + norms.size(), new BatchNorm1d(columns.count())));
      }
    }
    this.dropout = child("dropout", new Dropout(dropout));
    this.mlp = child("mlp", new Mlp(values(inputs), hidden, out));
  }

  /** Values per row that reach the linear layers. */
  public static long values(List<Columns> inputs) {
    long values = 0;
    for (Columns columns : inputs) {
      if (columns instanceof Categories categories) {
        for (int size : categories.sizes()) {
          values += categories.widthOf(size);
        }
      } else {
        values += columns.count();
      }
    }
    return values;
  }

  /** Width of the embedding of so many categories: half of them, rounded up, at most 50. */
  public static int width(int categories) {
    return Math.min(WIDEST, (categories + 1) / 2);
  }

  @Override
  protected Tensor forward(Tensor... given) {
    if (given.length != inputs.size()) {
      throw new IllegalArgumentException(
          "Cannot run a tabular model: expected %d inputs, got %d."
              .formatted(inputs.size(), given.length));
    }
    List<Tensor> values = new ArrayList<>();
    int norm = 0;
    int embedding = 0;
    for (int i = 0; i < given.length; i++) {
      Tensor input = given[i];
      Columns columns = inputs.get(i);
      if (input.dim() != 2 || input.size(1) != columns.count()) {
        throw new IllegalArgumentException(
            "Cannot run a tabular model: expected input %d as [n, %d], got %s."
                .formatted(i, columns.count(), Tensors.describe(input)));
      }
      if (columns instanceof Numbers) {
        values.add(norms.get(norm++).call(input));
        continue;
      }
      for (int column = 0; column < columns.count(); column++) {
        values.add(embeddings.get(embedding++).call(input.select(1, column)));
      }
    }
    Tensor all =
        values.size() == 1
            ? values.get(0)
            : torch.cat(new TensorVector(values.toArray(Tensor[]::new)), 1);
    return mlp.call(dropout.call(all));
  }
}
