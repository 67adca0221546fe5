/**
 * Optimizers on libtorch's fused kernels with name-keyed state, learning-rate schedules, clipping.
 */
@NullMarked
package io.sparktrainer.optim;

import org.jspecify.annotations.NullMarked;
