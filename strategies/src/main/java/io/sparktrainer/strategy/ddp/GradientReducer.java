package io.sparktrainer.strategy.ddp;

import io.sparktrainer.comm.CollectiveHandle;
import io.sparktrainer.comm.Communicator;
import io.sparktrainer.comm.ReduceOp;
import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.Gradients;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * Averages gradients over the ranks in buckets, while backward still runs.
 *
 * <p>The algorithm is that of PyTorch's reducer (Li et al., VLDB 2020): a gradient that is complete
 * is divided by the world size into its bucket's slot, a full bucket is reduced at once, strictly
 * in bucket order so that all ranks issue the same collectives, and after the first step the
 * buckets are laid out anew in the order in which rank 0's gradients arrived. Where it differs: a
 * parameter without gradient fails the same backward on every rank, by name, at no extra
 * collective, because each rank adds its number of missing gradients to the last bucket.
 */
final class GradientReducer implements AutoCloseable {
  private static final long FIRST_BUCKET_BYTES = 1L << 20;
  private static final long BUCKET_BYTES = 25L << 20;

  private final List<String> names;
  private final List<Tensor> parameters;
  private final DdpOptions options;
  private final Communicator communicator;
  private final ArrivalHooks hooks;
  private final GraphUsage usage;
  private final int[] bucketOf;
  private final int[] slotOf;
  private final boolean[] filled;
  private final List<Integer> arrivals = new ArrayList<>();
  private List<Bucket> buckets = List.of();
  private boolean rebuilt;
  private int nextToLaunch;

  /**
   * Registers hooks on {@code parameters} and lays out the first buckets.
   *
   * @param parameters the trainable parameters by name, in the model's order, the same on all ranks
   */
  GradientReducer(Map<String, Tensor> parameters, DdpOptions options, Communicator communicator) {
    this.names = List.copyOf(parameters.keySet());
    this.parameters = List.copyOf(parameters.values());
    this.options = options;
    this.communicator = communicator;
    this.usage = new GraphUsage(names, options, communicator);
    this.bucketOf = new int[names.size()];
    this.slotOf = new int[names.size()];
    this.filled = new boolean[names.size()];
    this.hooks = new ArrivalHooks(this.parameters, this::fill);
    layOut(initialBuckets());
  }

  /** Lays the buckets out anew once the order of arrival is known; all ranks call it together. */
  void beforeForward() {
    if (!rebuilt && !arrivals.isEmpty() && usage.isFixed()) {
      layOut(bucketsInOrder(agreedOrder()));
      rebuilt = true;
    }
  }

  /** Starts filling buckets: call it before the backward pass whose gradients are to be reduced. */
  void beforeBackward() {
    Arrays.fill(filled, false);
    nextToLaunch = 0;
    buckets.forEach(Bucket::reset);
    usage.beforeBackward();
    if (!rebuilt) {
      arrivals.clear();
    }
    hooks.arm();
  }

  /** What a hook threw during a backward pass that failed; it is the cause of that failure. */
  RuntimeException causeOf(RuntimeException backwardFailure) {
    RuntimeException cause = hooks.disarm();
    return cause == null ? backwardFailure : cause;
  }

  /**
   * Completes the reduction after backward; {@code grad()} of every used parameter is then the mean
   * over all ranks, and that of a parameter no rank used is untouched.
   *
   * @throws IllegalStateException on every rank, if some rank did not use all parameters and the
   *     options don't allow it
   */
  void finish() {
    try (var scope = NativeScope.open();
        var off = Gradients.off()) {
      hooks.flush();
      fillMissing();
      launchFull(buckets.size());
      CollectiveHandle agreement = usage.agree();
      buckets.forEach(Bucket::await);
      agreement.await();
      usage.requireExpected(buckets.get(buckets.size() - 1).flagged());
      if (!options.gradientAsBucketView() || usage.anyUnusedHere()) {
        copyOut();
      }
    }
  }

  private void fill(int index) {
    usage.used(index);
    if (filled[index] || bucketOf[index] < 0) {
      return;
    }
    arrivals.add(index);
    try (var scope = NativeScope.open();
        var off = Gradients.off()) {
      Tensor slot = slot(index);
      Tensor grad = parameters.get(index).grad();
      Scalar share = Tensors.scalar(1.0 / communicator.worldSize());
      if (isSameMemory(grad, slot)) {
        slot.mul_(share);
      } else {
        torch.mul_out(slot, grad, share);
        if (options.gradientAsBucketView()) {
          Tensors.setGrad(parameters.get(index), slot);
        }
      }
    }
    markFilled(index);
  }

  /** Parameters that this backward did not reach: gradients from earlier passes, or none at all. */
  private void fillMissing() {
    for (int i = 0; i < filled.length; i++) {
      if (filled[i] || bucketOf[i] < 0) {
        continue;
      }
      if (parameters.get(i).grad().defined()) {
        fill(i);
      } else {
        if (!rebuilt) {
          arrivals.add(i);
        }
        slot(i).zero_();
        markFilled(i);
      }
    }
  }

  private void markFilled(int index) {
    filled[index] = true;
    buckets.get(bucketOf[index]).filled();
    // The last bucket waits for the end of backward, when all surprises are known.
    launchFull(buckets.size() - 1);
  }

  private void launchFull(int end) {
    while (nextToLaunch < end && buckets.get(nextToLaunch).isFull()) {
      Bucket bucket = buckets.get(nextToLaunch++);
      bucket.flag(nextToLaunch == buckets.size() ? usage.surprises() : 0);
      bucket.launched(communicator.allReduce(bucket.flat(), ReduceOp.SUM));
    }
  }

  private void copyOut() {
    for (int i = 0; i < filled.length; i++) {
      if (bucketOf[i] < 0 || usage.isUnusedEverywhere(i)) {
        continue;
      }
      Tensor grad = parameters.get(i).grad();
      if (options.gradientAsBucketView()) {
        Tensors.setGrad(parameters.get(i), slot(i));
      } else if (grad.defined()) {
        grad.copy_(slot(i));
      } else {
        Tensors.setGrad(parameters.get(i), slot(i).clone());
      }
    }
  }

  private Tensor slot(int index) {
    return buckets.get(bucketOf[index]).slot(slotOf[index]);
  }

  private static boolean isSameMemory(Tensor grad, Tensor slot) {
    return grad.numel() > 0 && grad.data_ptr().address() == slot.data_ptr().address();
  }

  private List<List<Integer>> initialBuckets() {
    List<Integer> all = IntStream.range(0, names.size()).boxed().toList();
    if (usage.isDynamic()) {
      List<List<Integer>> reversed = new ArrayList<>(assign(all, limits()));
      java.util.Collections.reverse(reversed);
      return reversed;
    }
    return assign(all, List.of(Long.MAX_VALUE));
  }

  private List<List<Integer>> bucketsInOrder(List<Integer> order) {
    List<List<Integer>> assigned = new ArrayList<>(assign(order, limits()));
    // A bucket is full when its last gradient arrives; with several types that is not the order of
    // their first ones.
    assigned.sort(Comparator.comparing(bucket -> order.indexOf(bucket.get(bucket.size() - 1))));
    return assigned;
  }

  private List<Long> limits() {
    if (options.bucketCapMb() == null) {
      return List.of(FIRST_BUCKET_BYTES, BUCKET_BYTES);
    }
    return List.of((long) (options.bucketCapMb() * (1 << 20)));
  }

  private List<List<Integer>> assign(List<Integer> order, List<Long> limits) {
    List<BucketAssignment.Gradient> gradients =
        order.stream()
            .map(parameters::get)
            .map(
                tensor -> {
                  DType dtype = DType.of(tensor);
                  return new BucketAssignment.Gradient(
                      tensor.numel() * dtype.bytes(), dtype, false);
                })
            .toList();
    return BucketAssignment.assign(gradients, limits).stream()
        .map(positions -> positions.stream().map(order::get).toList())
        .toList();
  }

  private void layOut(List<List<Integer>> assignment) {
    buckets.forEach(Bucket::close);
    Arrays.fill(bucketOf, -1);
    List<Bucket> laidOut = new ArrayList<>();
    for (List<Integer> indices : assignment) {
      for (int position = 0; position < indices.size(); position++) {
        bucketOf[indices.get(position)] = laidOut.size();
        slotOf[indices.get(position)] = position;
      }
      laidOut.add(new Bucket(indices, indices.stream().map(parameters::get).toList()));
    }
    buckets = laidOut;
  }

  /** Rank 0's order of arrival, without the parameters that a static graph never uses. */
  private List<Integer> agreedOrder() {
    try (var scope = NativeScope.open()) {
      long[] mine =
          arrivals.stream().filter(i -> !usage.isUnusedEverywhere(i)).mapToLong(i -> i).toArray();
      Tensor order =
          Tensors.of(mine, mine.length).to(device().toNative(), DType.INT64.scalarType());
      communicator.broadcast(order, 0).await();
      return Arrays.stream(Tensors.toLongs(order)).mapToObj(i -> (int) i).toList();
    }
  }

  private Device device() {
    return Device.of(parameters.get(0));
  }

  /** Parameter numbers of each bucket, in the order in which buckets are reduced. */
  List<List<Integer>> bucketIndices() {
    return buckets.stream().map(Bucket::indices).toList();
  }

  @Override
  public void close() {
    hooks.close();
    buckets.forEach(Bucket::close);
    buckets = List.of();
  }
}
