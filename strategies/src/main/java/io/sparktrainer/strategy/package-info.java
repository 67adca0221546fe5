/** The choice of a parallel strategy, its options, and the life cycle that all strategies share. */
@NullMarked
package io.sparktrainer.strategy;

import org.jspecify.annotations.NullMarked;
