package io.sparktrainer.strategy.ddp;

import io.sparktrainer.comm.Communicator;
import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.Gradients;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorBase;
import org.bytedeco.pytorch.global.torch;

/**
 * Averages gradients over the ranks in buckets, while backward still runs.
 *
 * <p>The algorithm is that of PyTorch's reducer (Li et al., VLDB 2020): a gradient that is complete
 * is divided by the world size into its bucket's slot, a full bucket is reduced at once, strictly
 * in bucket order so that all ranks issue the same collectives, and after the first step the
 * buckets are laid out anew in the order in which gradients arrived. Where it differs: a parameter
 * without gradient fails the same backward on every rank, by name, at no extra collective, because
 * each rank adds its number of missing gradients to the last bucket.
 */
final class GradientReducer implements AutoCloseable {
  /** Elements from which on a gradient is worth a call of its own. */
  private static final long LARGE_NUMEL = 1 << 14;

  private final List<String> names;
  private final List<Tensor> parameters;
  private final DdpOptions options;
  private final Communicator communicator;
  private final ArrivalHooks hooks;
  private final GraphUsage usage;
  private final BucketLayout layout;
  private final BucketExchange exchange;
  private final int[] bucketOf;
  private final int[] slotOf;
  private final boolean[] filled;
  private final boolean[] copyPending;
  private final long[] numel;
  private final List<Integer> arrivals = new ArrayList<>();
  private List<Bucket> buckets = List.of();
  private Scalar share;
  private int divisor = 1;
  private int orderRoot;
  private boolean reducedOnce;
  private boolean rebuilt;
  private int nextToLaunch;

  /**
   * Registers hooks on {@code parameters} and lays out the first buckets.
   *
   * @param parameters the trainable parameters by name, in the model's order, the same on all ranks
   * @param frozen the model's other parameters
   */
  GradientReducer(
      Map<String, Tensor> parameters,
      Map<String, Tensor> frozen,
      DdpOptions options,
      Communicator communicator) {
    this.names = List.copyOf(parameters.keySet());
    this.parameters = List.copyOf(parameters.values());
    this.options = options;
    this.communicator = communicator;
    this.usage = new GraphUsage(names, frozen, options, communicator);
    this.layout = new BucketLayout(this.parameters, options);
    this.exchange = BucketExchange.of(options.compression(), names, this.parameters, communicator);
    this.bucketOf = new int[names.size()];
    this.slotOf = new int[names.size()];
    this.filled = new boolean[names.size()];
    this.copyPending = new boolean[names.size()];
    this.numel = this.parameters.stream().mapToLong(Tensor::numel).toArray();
    this.share = NativeScope.keep(Tensors.scalar(1));
    layOut(usage.isDynamic() ? layout.reversed() : layout.single());
    this.hooks = new ArrivalHooks(this.parameters, new Arrivals());
  }

  /** Lays the buckets out anew once the order of arrival is known; all ranks call it together. */
  void beforeForward() {
    if (!rebuilt && reducedOnce && usage.isFixed()) {
      layOut(layout.arriving(agreedOrder()));
      rebuilt = true;
    }
  }

  /**
   * Starts filling buckets: call it before the backward pass whose gradients are to be reduced.
   *
   * @param step who takes part in this step
   */
  void beforeBackward(Participants step) {
    start(step, false);
    for (int i = 0; i < filled.length; i++) {
      if (usage.isKnownUnused(i) && bucketOf[i] >= 0 && !parameters.get(i).grad().defined()) {
        fillWithZero(i);
      }
    }
    hooks.arm();
  }

  private void start(Participants step, boolean withoutData) {
    Arrays.fill(filled, false);
    Arrays.fill(copyPending, false);
    nextToLaunch = 0;
    buckets.forEach(Bucket::reset);
    usage.beforeBackward(withoutData);
    if (divisor != step.divisor()) {
      divisor = step.divisor();
      share.close();
      share = NativeScope.keep(Tensors.scalar(1.0 / divisor));
    }
    if (!rebuilt) {
      arrivals.clear();
      orderRoot = step.lowestActive();
    }
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
      complete();
    }
  }

  /** A whole reduction to which this rank adds nothing, with the same result in {@code grad()}. */
  void reduceNothing(Participants step) {
    try (var scope = NativeScope.open();
        var off = Gradients.off()) {
      start(step, true);
      for (int i = 0; i < filled.length; i++) {
        if (bucketOf[i] >= 0) {
          fillWithZero(i);
        }
      }
      complete();
    }
  }

  private void complete() {
    launchFull(buckets.size());
    Runnable agreement = usage.agree();
    buckets.forEach(bucket -> bucket.exchange().secondRound());
    boolean known = usage.isFixed();
    boolean copied = !options.gradientAsBucketView() || usage.anyUnusedHere();
    for (Bucket bucket : buckets) {
      bucket.exchange().await();
      if (copied && known) {
        // While the later buckets are still on their way.
        copyOut(bucket);
      }
    }
    agreement.run();
    exchange.finishedPass();
    reducedOnce = true;
    boolean flagged = buckets.get(buckets.size() - 1).flagged();
    communicator.requireIntact();
    usage.requireExpected(flagged);
    if (copied && !known) {
      buckets.forEach(this::copyOut);
    }
  }

  private void fill(int index) {
    usage.used(index);
    if (filled[index] || bucketOf[index] < 0) {
      return;
    }
    if (options.gradientAsBucketView()) {
      // At once, so that at most one gradient exists beside the buckets.
      fillView(index);
    } else {
      copyPending[index] = true;
    }
    markFilled(index);
  }

  private void fillView(int index) {
    try (var scope = NativeScope.open();
        var off = Gradients.off()) {
      Tensor slot = slot(index);
      Tensor grad = gradient(index);
      if (isSameMemory(grad, slot)) {
        slot.mul_(share);
      } else {
        torch.mul_out(slot, grad, share);
        Tensors.setGrad(parameters.get(index), slot);
      }
    }
  }

  private final class Arrivals implements ArrivalHooks.Listener {
    /**
     * A large gradient is taken as it arrives: waiting for the next hook would delay its bucket by
     * the whole layer in between.
     */
    @Override
    public void arriving(int index, TensorBase arriving) {
      boolean early = !options.gradientAsBucketView() && numel[index] >= LARGE_NUMEL;
      if (!early || filled[index] || bucketOf[index] < 0 || !arriving.defined()) {
        return;
      }
      usage.used(index);
      try (var scope = NativeScope.open();
          var off = Gradients.off()) {
        Tensor addend = new Tensor(arriving);
        Tensor earlier = gradient(index);
        requireNoGraph(index, addend);
        if (earlier.defined()) {
          torch.add_out(slot(index), earlier, addend);
          slot(index).mul_(share);
        } else {
          torch.mul_out(slot(index), addend, share);
        }
      }
      markFilled(index);
    }

    @Override
    public void accumulated(int index) {
      fill(index);
    }
  }

  /** Fills those slots of a complete bucket that were left for one call. */
  private void copyIn(Bucket bucket) {
    GradientCopies copies = new GradientCopies();
    for (int index : bucket.indices()) {
      if (copyPending[index]) {
        copies.add(slot(index), gradient(index));
      }
    }
    copies.run();
    copies.scaleTargets(1.0 / divisor);
  }

  private Tensor gradient(int index) {
    Tensor grad = parameters.get(index).grad();
    if (grad.defined()) {
      requireNoGraph(index, grad);
    }
    return grad;
  }

  private void requireNoGraph(int index, Tensor grad) {
    if (grad.requires_grad()) {
      throw new IllegalStateException(
          "Cannot reduce the gradient of %s: expected one without a graph, got one made with create_graph (rank %d of %d). Compute higher-order terms with autograd.grad inside the loss, and leave the parameters' own gradients to the strategy."
              .formatted(names.get(index), communicator.rank(), communicator.worldSize()));
    }
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
        fillWithZero(i);
      }
    }
  }

  private void fillWithZero(int index) {
    slot(index).zero_();
    markFilled(index);
  }

  private void markFilled(int index) {
    filled[index] = true;
    if (!rebuilt) {
      arrivals.add(index);
    }
    buckets.get(bucketOf[index]).filled();
    // The last bucket waits for the end of backward, when all surprises are known.
    launchFull(buckets.size() - 1);
  }

  private void launchFull(int end) {
    while (nextToLaunch < end && buckets.get(nextToLaunch).isFull()) {
      Bucket bucket = buckets.get(nextToLaunch++);
      try (var scope = NativeScope.open();
          var off = Gradients.off()) {
        copyIn(bucket);
        bucket.flag(nextToLaunch == buckets.size() ? usage.surprises() : 0);
        bucket.launched(exchange.start(bucket));
      }
    }
  }

  private void copyOut(Bucket bucket) {
    GradientCopies copies = new GradientCopies();
    for (int i : bucket.indices()) {
      if (usage.isUnusedEverywhere(i)) {
        continue;
      }
      Tensor grad = parameters.get(i).grad();
      if (options.gradientAsBucketView()) {
        Tensors.setGrad(parameters.get(i), slot(i));
      } else if (grad.defined()) {
        copies.add(grad, slot(i));
      } else {
        Tensors.setGrad(parameters.get(i), slot(i).clone());
      }
    }
    copies.run();
  }

  private Tensor slot(int index) {
    return buckets.get(bucketOf[index]).slot(slotOf[index]);
  }

  private static boolean isSameMemory(Tensor grad, Tensor slot) {
    return grad.numel() > 0 && grad.data_ptr().address() == slot.data_ptr().address();
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

  /** One rank's order of arrival, without the parameters that a static graph never uses. */
  private List<Integer> agreedOrder() {
    try (var scope = NativeScope.open()) {
      long[] mine =
          arrivals.stream().filter(i -> !usage.isUnusedEverywhere(i)).mapToLong(i -> i).toArray();
      Device device = Device.of(parameters.get(0));
      Tensor order = Tensors.of(mine, mine.length).to(device.toNative(), DType.INT64.scalarType());
      communicator.broadcast(order, orderRoot).awaitOnHost();
      return Arrays.stream(Tensors.toLongs(order)).mapToObj(i -> (int) i).toList();
    }
  }

  /** Parameter numbers of each bucket, in the order in which buckets are reduced. */
  List<List<Integer>> bucketIndices() {
    return buckets.stream().map(Bucket::indices).toList();
  }

  BucketExchange exchange() {
    return exchange;
  }

  @Override
  public void close() {
    hooks.close();
    buckets.forEach(Bucket::close);
    buckets = List.of();
    exchange.close();
    share.close();
  }
}
