/** The training loop over any strategy. */
@NullMarked
package io.sparktrainer.engine;

import org.jspecify.annotations.NullMarked;
