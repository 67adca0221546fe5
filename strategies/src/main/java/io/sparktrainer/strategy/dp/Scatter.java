package io.sparktrainer.strategy.dp;

import io.sparktrainer.torch.Tensors;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import org.bytedeco.pytorch.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * How a batch is cut along its first dimension: PyTorch's rule, pieces of ceil(rows / replicas)
 * rows as long as there are rows, so 5 rows for 4 replicas are 2, 2 and 1, and the last replica
 * rests.
 */
final class Scatter {
  /**
   * What one replica works on.
   *
   * @param inputs rows of the inputs; 0-dimensional inputs whole
   * @param target rows of the target, or null for a prediction
   * @param rowWeight weights of the rows, or null
   * @param weight this piece's share of the batch's rows
   */
  record Piece(
      List<Tensor> inputs, @Nullable Tensor target, @Nullable Tensor rowWeight, double weight) {
    Tensor[] inputArray() {
      return inputs.toArray(Tensor[]::new);
    }
  }

  private Scatter() {}

  /** Rows per piece, at most {@code replicas} pieces, none empty. */
  static List<Long> sizes(long rows, int replicas) {
    long size = (rows + replicas - 1) / replicas;
    List<Long> sizes = new ArrayList<>();
    for (long left = rows; left > 0; left -= size) {
      sizes.add(Math.min(size, left));
    }
    return sizes;
  }

  /**
   * Cuts a batch into views, in the current scope.
   *
   * @throws IllegalArgumentException if the tensors have no rows or differ in their number
   */
  static List<Piece> cut(
      Tensor[] inputs, @Nullable Tensor target, @Nullable Tensor rowWeight, int replicas) {
    long rows = rows(inputs, target, rowWeight);
    List<Piece> pieces = new ArrayList<>();
    long offset = 0;
    for (long size : sizes(rows, replicas)) {
      long start = offset;
      List<Tensor> part =
          Arrays.stream(inputs)
              .map(input -> input.dim() == 0 ? input : input.narrow(0, start, size))
              .toList();
      pieces.add(
          new Piece(
              part,
              target == null || target.dim() == 0 ? target : target.narrow(0, start, size),
              rowWeight == null ? null : rowWeight.narrow(0, start, size),
              (double) size / rows));
      offset += size;
    }
    return pieces;
  }

  private static long rows(Tensor[] inputs, @Nullable Tensor target, @Nullable Tensor rowWeight) {
    List<Tensor> all =
        Stream.of(Arrays.stream(inputs), Stream.ofNullable(target), Stream.ofNullable(rowWeight))
            .flatMap(tensors -> tensors)
            .toList();
    List<Tensor> batch = all.stream().filter(tensor -> tensor.dim() > 0).toList();
    List<Long> rows = batch.stream().map(tensor -> tensor.size(0)).distinct().toList();
    if (rows.size() != 1 || rows.get(0) < 1) {
      throw new IllegalArgumentException(
          "Cannot cut a batch into pieces: expected inputs, target and weights with the same number of rows, at least 1, got %s."
              .formatted(all.stream().map(Tensors::describe).toList()));
    }
    return rows.get(0);
  }
}
