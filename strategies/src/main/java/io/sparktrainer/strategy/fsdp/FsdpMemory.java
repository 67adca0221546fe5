package io.sparktrainer.strategy.fsdp;

/**
 * Bytes that a rank's side of {@code fsdp} holds, without buffers, the optimizer's state and
 * activations.
 *
 * @param parameterBytes shards of the parameters
 * @param gradientBytes shards of the gradients
 * @param transientBytes memory in which gathered parameters, whole gradients and pieces of them
 *     that are being reduced take turns; it is on the device and kept between steps
 * @param peakTransientBytes most of it that was in use at a time
 * @param hostBytes what of the shards is in the host's memory, and not on the device
 */
public record FsdpMemory(
    long parameterBytes,
    long gradientBytes,
    long transientBytes,
    long peakTransientBytes,
    long hostBytes) {
  /** What is on the device. */
  public long deviceBytes() {
    return parameterBytes + gradientBytes + transientBytes - hostBytes;
  }
}
