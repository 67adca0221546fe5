/** The strategy none: one rank, one device. */
@NullMarked
package io.sparktrainer.strategy.single;

import org.jspecify.annotations.NullMarked;
