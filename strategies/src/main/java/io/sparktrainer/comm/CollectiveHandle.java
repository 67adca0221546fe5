package io.sparktrainer.comm;

/**
 * A collective under way.
 *
 * <p>There are two ways to wait. {@link #await} is for what libtorch computes next: over Gloo, and
 * in a group of one, it blocks until the result is there; over NCCL it returns at once, and the
 * stream that the calling thread computes on waits for the collective, as with PyTorch's {@code
 * Work.wait()}. {@link #awaitOnHost} blocks over all of them. Barriers always block.
 */
public interface CollectiveHandle {
  /**
   * Lets what the calling thread gives libtorch to compute from now on find the result in the
   * tensors that were handed in. They may be freed and written to from now on, by work of the
   * stream that the calling thread computes on. Calling it again does no harm.
   *
   * <p>Where it returns before the collective has ended, a collective that does not end well aborts
   * the group; the next call of the group then throws, as do {@link #awaitOnHost} and {@link
   * Communicator#requireIntact}, and the result is undefined.
   *
   * @throws CollectiveException if a peer is gone, the time-out has passed or the group was aborted
   */
  void await();

  /**
   * Waits until the result is in the tensors that were handed in, for the host to read. Calling it
   * again returns at once.
   *
   * @throws CollectiveException if a peer is gone, the time-out has passed or the group was aborted
   */
  default void awaitOnHost() {
    await();
  }

  /** Whether the collective has ended, well or not: {@link #awaitOnHost} would not block. */
  boolean isDone();
}
