/** The strategy {@code dp}: several replicas of one model in one process, one thread each. */
@NullMarked
package io.sparktrainer.strategy.dp;

import org.jspecify.annotations.NullMarked;
