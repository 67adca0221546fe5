package io.sparktrainer.strategy.ddp;

import io.sparktrainer.comm.CollectiveHandle;
import io.sparktrainer.comm.Communicator;
import io.sparktrainer.comm.ReduceOp;
import io.sparktrainer.strategy.GradientCompression;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.bytedeco.pytorch.GeneratorOptional;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorVector;
import org.bytedeco.pytorch.global.torch;

/**
 * PowerSGD with error feedback (Vogels et al., arXiv 1905.13727, algorithm 1). Two rounds per
 * bucket: the left factors together with everything that is sent whole, then the right factors.
 *
 * <p>What is kept between steps belongs to a parameter, not to a bucket, so buckets may be laid out
 * anew at any time.
 */
final class PowerSgdExchange extends BucketExchange {
  private static final String ITERATION = "iteration";
  private static final double SMALLEST_REMAINDER = 1e-5;

  private final GradientCompression.PowerSgd options;
  private final List<Matrix> matrices = new ArrayList<>();
  private final Map<String, Tensor> state = new LinkedHashMap<>();
  private final Communicator communicator;
  private long iteration;

  /** One parameter as a matrix, of its first dimension by all others. */
  private record Matrix(String name, long rows, long columns, int rank) {
    String error() {
      return "error." + name;
    }

    String right() {
      return "right." + name;
    }
  }

  PowerSgdExchange(
      GradientCompression.PowerSgd options,
      List<String> names,
      List<Tensor> parameters,
      Communicator communicator) {
    this.options = options;
    this.communicator = communicator;
    for (int i = 0; i < names.size(); i++) {
      matrices.add(matrix(names.get(i), parameters.get(i)));
    }
  }

  private Matrix matrix(String name, Tensor parameter) {
    long[] shape = Tensors.shape(parameter);
    long rows = shape.length < 2 ? 0 : shape[0];
    long columns = rows == 0 ? 0 : parameter.numel() / rows;
    int rank = (int) Math.min(options.rank(), Math.min(rows, columns));
    boolean pays = (rows + columns) * rank * options.minCompressionRate() < rows * columns;
    boolean precise = DType.of(parameter).bytes() >= DType.FLOAT32.bytes();
    return new Matrix(name, rows, columns, pays && precise ? rank : 0);
  }

  @Override
  Exchange start(Bucket bucket) {
    List<Integer> factored =
        IntStream.range(0, bucket.indices().size())
            .filter(position -> matrices.get(bucket.indices().get(position)).rank() > 0)
            .boxed()
            .toList();
    if (iteration < options.startIteration() || factored.isEmpty()) {
      return communicator.allReduce(bucket.flat(), ReduceOp.SUM)::await;
    }
    return new Factored(bucket, factored);
  }

  @Override
  void finishedPass() {
    iteration++;
  }

  @Override
  Map<String, Tensor> state() {
    try (var scope = NativeScope.open()) {
      replace(ITERATION, Tensors.of(new long[] {iteration}, 1));
    }
    return Map.copyOf(state);
  }

  @Override
  void loadState(Map<String, Tensor> saved) {
    Map<String, long[]> shapes = new LinkedHashMap<>();
    shapes.put(ITERATION, new long[] {1});
    for (Matrix matrix : matrices) {
      if (matrix.rank() > 0) {
        shapes.put(matrix.error(), new long[] {matrix.rows(), matrix.columns()});
        shapes.put(matrix.right(), new long[] {matrix.columns(), matrix.rank()});
      }
    }
    saved.forEach(
        (name, tensor) -> {
          long[] shape = shapes.get(name);
          if (shape == null || !java.util.Arrays.equals(shape, Tensors.shape(tensor))) {
            throw new IllegalArgumentException(
                "Cannot load the state of powersgd: expected %s for %s, got %s. Load a state of the same model and options."
                    .formatted(
                        shape == null ? "nothing" : java.util.Arrays.toString(shape),
                        name,
                        Tensors.describe(tensor)));
          }
        });
    Tensor reached = saved.get(ITERATION);
    if (reached == null) {
      throw new IllegalArgumentException(
          "Cannot load the state of powersgd: expected an iteration among " + saved.keySet() + ".");
    }
    saved.forEach((name, tensor) -> replace(name, tensor.clone()));
    iteration = Tensors.toLongs(reached)[0];
  }

  private void replace(String name, Tensor value) {
    Tensor before = state.put(name, NativeScope.keep(value));
    if (before != null) {
      before.close();
    }
  }

  /** Orthonormal columns to start from, the same on every rank. */
  private Tensor right(Matrix matrix, int index, Tensor like) {
    long seed = options.seed() + 1_000_003L * iteration + index;
    Tensor random =
        torch
            .randn(
                new long[] {matrix.columns(), matrix.rank()},
                new GeneratorOptional(torch.make_generator_cpu(seed)),
                Device.CPU.options(DType.of(like)))
            .to(like.device(), like.scalar_type());
    Tensor known = options.warmStart() ? state.get(matrix.right()) : null;
    if (known == null) {
      return orthonormal(random);
    }
    // A column of zeros, from a gradient of lower rank, would stay zero for ever.
    Tensor empty = known.abs().sum(0).eq(Tensors.scalar(0));
    return orthonormal(torch.where(empty, random, known));
  }

  /**
   * Makes the columns orthonormal in place (Gram-Schmidt, twice). A column that depends on those
   * before it, such as one of zeros, becomes zero.
   */
  static Tensor orthonormal(Tensor columns) {
    try (var scope = NativeScope.open()) {
      long count = columns.size(1);
      for (long i = 0; i < count; i++) {
        Tensor column = columns.narrow(1, i, 1);
        Tensor before = column.norm();
        Tensor earlier = columns.narrow(1, 0, i);
        // Once leaves a remainder along the earlier columns, twice does not.
        for (int pass = 0; pass < 2; pass++) {
          column.sub_(earlier.matmul(earlier.t().matmul(column)));
        }
        Tensor after = column.norm();
        // What is left of a column that depends on the others is rounding, not direction.
        Tensor independent = after.gt(before.mul(Tensors.scalar(SMALLEST_REMAINDER)));
        column.div_(after.clamp_min(Tensors.scalar(Float.MIN_NORMAL))).mul_(independent);
      }
    }
    return columns;
  }

  /** A bucket of which at least one matrix is sent as factors. */
  private final class Factored implements Exchange {
    private final Bucket bucket;
    private final List<Integer> factored;
    private final List<Tensor> whole = new ArrayList<>();
    private final List<Tensor> inputs = new ArrayList<>();
    private final List<Tensor> lefts = new ArrayList<>();
    private Tensor wire;
    private CollectiveHandle handle;

    private Factored(Bucket bucket, List<Integer> factored) {
      this.bucket = bucket;
      this.factored = factored;
      try (var scope = NativeScope.open()) {
        List<Tensor> sent = new ArrayList<>();
        for (int position : factored) {
          Matrix matrix = matrix(position);
          Tensor input = keep(input(matrix, bucket.slot(position)));
          inputs.add(input);
          int index = bucket.indices().get(position);
          sent.add(input.matmul(right(matrix, index, input)));
        }
        for (int position = 0; position < bucket.indices().size(); position++) {
          if (!factored.contains(position)) {
            whole.add(bucket.slot(position));
          }
        }
        whole.add(bucket.flagSlot());
        sent.addAll(whole);
        wire = pack(sent);
        handle = communicator.allReduce(wire, ReduceOp.SUM);
      }
    }

    private Matrix matrix(int position) {
      return matrices.get(bucket.indices().get(position));
    }

    /** What is factored: the gradient, and what earlier factors lost of it. */
    private Tensor input(Matrix matrix, Tensor slot) {
      Tensor gradient = slot.reshape(matrix.rows(), matrix.columns());
      if (!options.errorFeedback()) {
        return gradient;
      }
      Tensor error = state.get(matrix.error());
      return error == null ? gradient.clone() : gradient.add(error);
    }

    @Override
    public void secondRound() {
      handle.await();
      try (var scope = NativeScope.open()) {
        long offset = 0;
        List<Tensor> sent = new ArrayList<>();
        for (int i = 0; i < factored.size(); i++) {
          Matrix matrix = matrix(factored.get(i));
          Tensor left = keep(piece(offset, matrix.rows(), matrix.rank()).clone());
          lefts.add(orthonormal(left));
          sent.add(inputs.get(i).t().matmul(left));
          offset += left.numel();
        }
        for (Tensor target : whole) {
          target.copy_(wire.narrow(0, offset, target.numel()).view_as(target));
          offset += target.numel();
        }
        wire.close();
        wire = pack(sent);
        handle = communicator.allReduce(wire, ReduceOp.SUM);
      }
    }

    @Override
    public void await() {
      handle.await();
      try (var scope = NativeScope.open()) {
        long offset = 0;
        for (int i = 0; i < factored.size(); i++) {
          int position = factored.get(i);
          Matrix matrix = matrix(position);
          Tensor right = piece(offset, matrix.columns(), matrix.rank());
          Tensor sum = lefts.get(i).matmul(right.t());
          Tensor slot = bucket.slot(position);
          slot.copy_(sum.view_as(slot));
          if (options.errorFeedback()) {
            // Every rank keeps its part, so that the parts add up to what the sum has lost.
            Scalar part = Tensors.scalar(1.0 / communicator.worldSize());
            replace(matrix.error(), inputs.get(i).sub(sum.mul(part)));
          }
          if (options.warmStart()) {
            replace(matrix.right(), right.clone());
          }
          offset += right.numel();
        }
      }
      inputs.forEach(Tensor::close);
      lefts.forEach(Tensor::close);
      wire.close();
    }

    private Tensor piece(long offset, long rows, long columns) {
      return wire.narrow(0, offset, rows * columns).view(rows, columns);
    }

    /** One flat tensor, which outlives the scope. */
    private Tensor pack(List<Tensor> tensors) {
      Tensor[] flat = tensors.stream().map(t -> t.reshape(-1)).toArray(Tensor[]::new);
      return keep(torch.cat(new TensorVector(flat)));
    }
  }

  private static Tensor keep(Tensor tensor) {
    return NativeScope.keep(tensor);
  }

  @Override
  public void close() {
    state.values().forEach(Tensor::close);
    state.clear();
  }
}
