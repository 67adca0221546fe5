package io.sparktrainer.strategy.fsdp;

/**
 * Bytes that a rank's side of {@code fsdp} holds, without the optimizer's state and activations.
 *
 * @param parameterBytes shards of the parameters
 * @param gradientBytes shards of the gradients
 * @param transientBytes memory in which gathered parameters and whole gradients take turns; it is
 *     kept between steps
 * @param peakTransientBytes most of it that was in use at a time
 */
public record FsdpMemory(
    long parameterBytes, long gradientBytes, long transientBytes, long peakTransientBytes) {}
