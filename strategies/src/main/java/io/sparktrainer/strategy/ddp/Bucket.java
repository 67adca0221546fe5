package io.sparktrainer.strategy.ddp;

import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.util.ArrayList;
import java.util.List;
import org.bytedeco.pytorch.LongOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.jspecify.annotations.Nullable;

/**
 * A flat buffer in which some gradients are reduced together, with one slot per gradient and one
 * more element at the end, in which ranks add up what went wrong (see {@link #flag}).
 */
final class Bucket implements AutoCloseable {
  private final List<Integer> indices;
  private final Tensor flat; // [sum of numel + 1]
  private final List<Tensor> slots = new ArrayList<>();
  private final Tensor flagSlot; // [1]
  private int pending;
  private BucketExchange.@Nullable Exchange exchange;

  /**
   * Lays out slots with the sizes and strides of the parameters.
   *
   * @param indices the parameters' numbers
   * @param parameters the parameters themselves, all of one type
   */
  Bucket(List<Integer> indices, List<Tensor> parameters) {
    this.indices = List.copyOf(indices);
    try (var scope = NativeScope.open()) {
      long numel = parameters.stream().mapToLong(Tensor::numel).sum();
      Tensor first = parameters.get(0);
      flat = NativeScope.keep(torch.zeros(new long[] {numel + 1}, first.options()));
      long offset = 0;
      for (Tensor parameter : parameters) {
        slots.add(NativeScope.keep(slot(parameter, offset)));
        offset += parameter.numel();
      }
      flagSlot = NativeScope.keep(flat.narrow(0, numel, 1));
    }
    reset();
  }

  /** Same strides as the parameter, so that gradients keep their memory layout. */
  private Tensor slot(Tensor parameter, long offset) {
    long[] shape = Tensors.shape(parameter);
    if (!parameter.is_non_overlapping_and_dense()) {
      return flat.narrow(0, offset, parameter.numel()).view(shape);
    }
    return flat.as_strided(shape, Tensors.strides(parameter), new LongOptional(offset));
  }

  /** Numbers of the parameters in this bucket, in slot order. */
  List<Integer> indices() {
    return indices;
  }

  Tensor slot(int position) {
    return slots.get(position);
  }

  /** All slots and the flag: what is summed over the ranks. */
  Tensor flat() {
    return flat;
  }

  /** The element in which flags add up, [1]. */
  Tensor flagSlot() {
    return flagSlot;
  }

  DType dtype() {
    return DType.of(flat);
  }

  /** Starts a new backward pass: all gradients are awaited. */
  void reset() {
    pending = indices.size();
    exchange = null;
  }

  /** Notes that one more slot is filled. */
  void filled() {
    pending--;
  }

  boolean isFull() {
    return pending == 0;
  }

  /** Sets this rank's part of the number that is summed over all ranks with the bucket. */
  void flag(int value) {
    flagSlot.fill_(Tensors.scalar(value));
  }

  /** The flags of all ranks added up: zero only if every rank raised none. */
  boolean flagged() {
    try (var scope = NativeScope.open()) {
      return flagSlot.item_double() != 0;
    }
  }

  void launched(BucketExchange.Exchange started) {
    exchange = started;
  }

  /** What sums this bucket over the ranks. */
  BucketExchange.Exchange exchange() {
    if (exchange == null) {
      throw new IllegalStateException("Cannot wait for a bucket whose reduction has not started.");
    }
    return exchange;
  }

  @Override
  public void close() {
    slots.forEach(Tensor::close);
    flagSlot.close();
    flat.close();
  }
}
