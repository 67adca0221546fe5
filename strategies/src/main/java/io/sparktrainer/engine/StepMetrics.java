package io.sparktrainer.engine;

import org.jspecify.annotations.Nullable;

/**
 * One optimizer step on one rank.
 *
 * @param epoch number of the epoch, from 0
 * @param step number of the step in the epoch, from 0
 * @param stepsPerEpoch steps of each epoch
 * @param loss mean loss of this rank's rows in the step
 * @param learningRate what the optimizer used
 * @param gradNorm norm before clipping, or null where gradients are not clipped by norm
 * @param rows this rank's rows in the step
 * @param seconds wall-clock time of the step
 */
public record StepMetrics(
    int epoch,
    int step,
    int stepsPerEpoch,
    double loss,
    double learningRate,
    @Nullable Double gradNorm,
    int rows,
    double seconds) {}
