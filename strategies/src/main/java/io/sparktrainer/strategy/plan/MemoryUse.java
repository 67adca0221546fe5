package io.sparktrainer.strategy.plan;

/**
 * Bytes that one rank holds at the peak of a step, by purpose.
 *
 * @param parameters parameters, or this rank's shards of them, and buffers of the model
 * @param gradients gradients outside buckets, shards of gradients included, and those that backward
 *     makes before they are copied or added to where they are kept
 * @param optimizer state of the optimizer
 * @param buckets flat buffers in which gradients are reduced
 * @param copies whole parameters gathered, and tensors cast, for computing
 * @param activations what forward keeps for backward
 * @param host memory of the host that the rank uses instead of its device's
 */
public record MemoryUse(
    long parameters,
    long gradients,
    long optimizer,
    long buckets,
    long copies,
    long activations,
    long host) {
  public MemoryUse {
    if (Math.min(Math.min(parameters, gradients), Math.min(optimizer, buckets)) < 0
        || Math.min(Math.min(copies, activations), host) < 0) {
      throw new IllegalArgumentException("Cannot use memory: expected no negative figure.");
    }
  }

  /** What must fit into the device's memory. */
  public long peak() {
    return parameters + gradients + optimizer + buckets + copies + activations;
  }

  /** The same where host and device are one memory. */
  MemoryUse onHost() {
    return new MemoryUse(parameters + host, gradients, optimizer, buckets, copies, activations, 0);
  }
}
