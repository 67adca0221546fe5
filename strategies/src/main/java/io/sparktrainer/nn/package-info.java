/** Blocks (modules whose call can be observed), layers, ready models and losses. */
@NullMarked
package io.sparktrainer.nn;

import org.jspecify.annotations.NullMarked;
