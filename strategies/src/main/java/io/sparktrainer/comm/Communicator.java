package io.sparktrainer.comm;

import io.sparktrainer.torch.CudaStream;
import org.bytedeco.pytorch.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * Collectives between the ranks of one group.
 *
 * <p>Every rank of the group calls the same collectives in the same order with tensors of the same
 * size and type. A collective returns at once with a handle; tensors handed in must stay untouched
 * until {@link CollectiveHandle#await()} has returned. Tensors are contiguous. One thread at a time
 * uses a communicator.
 *
 * <p>On a GPU a collective begins after all that the calling thread has given the device so far,
 * and {@code await} lets the device wait, not the thread: see {@link CollectiveHandle} for what it
 * guarantees. Whoever reads results on the host uses {@link CollectiveHandle#awaitOnHost}, or
 * copies them there and then calls {@link #requireIntact}.
 *
 * <p>Two exits: {@link #close()} after success, {@link #abort(String)} after a failure, from any
 * thread, which also frees ranks that wait inside a collective.
 */
public interface Communicator extends AutoCloseable {
  /** This rank's number in the group, from 0. */
  int rank();

  /** Number of ranks in the group. */
  int worldSize();

  /**
   * Replaces {@code tensor} on every rank by the reduction over all ranks.
   *
   * @throws CollectiveException if the group is closed or aborted
   * @throws IllegalArgumentException if the tensor is not contiguous or of a type that cannot be
   *     reduced
   */
  CollectiveHandle allReduce(Tensor tensor, ReduceOp op);

  /**
   * Reduces {@code input} over all ranks and leaves piece r, of {@code worldSize} equal pieces, in
   * {@code output} of rank r.
   *
   * @param output numel/worldSize elements
   * @param input numel elements; its content is undefined afterwards
   */
  CollectiveHandle reduceScatter(Tensor output, Tensor input, ReduceOp op);

  /**
   * Concatenates every rank's {@code input}, in rank order, into {@code output} on every rank.
   *
   * @param output numel * worldSize elements
   * @param input numel elements; may be the rank's own piece of {@code output}
   */
  CollectiveHandle allGather(Tensor output, Tensor input);

  /** Replaces {@code tensor} on every rank by the one of rank {@code root}. */
  CollectiveHandle broadcast(Tensor tensor, int root);

  /** Completes once every rank has called it. */
  CollectiveHandle barrier();

  /**
   * Starts the collectives that {@code calls} makes of this group. Over NCCL they are launched as
   * one, which saves launches where there are several small ones: they begin once {@code calls} has
   * returned, after all that it gave the device, and can be awaited once this method has returned.
   * Every rank groups the same collectives, and none of them uses another one's tensors. If {@code
   * calls} throws, those that it made before are started all the same.
   *
   * @throws CollectiveException if the group is closed or aborted
   */
  default void grouped(Runnable calls) {
    calls.run();
  }

  /**
   * A group of some of this group's ranks. Every rank of this group calls it, in the same order and
   * with the same division into groups; each names the group that it is part of.
   *
   * @param name the division's name, such as {@code "shard"}, unique in this group
   * @param ranks this group's rank numbers, ascending; position in the array is the rank in the new
   *     group; contains the caller
   */
  Communicator subGroup(String name, int... ranks);

  /**
   * Makes sure that what was read from tensors, after collectives over them, is a result: a group
   * that is aborted frees devices that wait in a collective, with anything in their tensors.
   *
   * @throws CollectiveException if the group was aborted, here or, as far as is known, elsewhere
   */
  void requireIntact();

  /**
   * A stream of the device beside those that threads compute on, which the caller closes: what is
   * started while it is current runs beside what is computed. Null where threads compute
   * themselves, and nothing does.
   */
  default @Nullable CudaStream newStream() {
    return null;
  }

  /** What this rank has sent through this group so far, by kind of collective. */
  CollectiveCounts counts();

  /** Gives back sockets and threads after all ranks have finished. Does nothing the second time. */
  @Override
  void close();

  /**
   * Ends the group at once on this rank; its waiting collectives throw, and so do the other ranks',
   * which lose their peer. May be called from any thread, and more than once.
   *
   * @param reason the first cause, for the messages of what fails because of it
   */
  void abort(String reason);
}
