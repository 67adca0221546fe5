package io.sparktrainer.comm;

/** A collective under way. */
public interface CollectiveHandle {
  /**
   * Waits until the result is in the tensors that were handed in. Calling it again returns at once.
   *
   * @throws CollectiveException if a peer is gone, the time-out has passed or the group was aborted
   */
  void await();

  /** Whether {@link #await()} would return or throw at once. */
  boolean isDone();
}
