/** Collectives between the ranks of one training, and how the ranks find each other. */
@NullMarked
package io.sparktrainer.comm;

import org.jspecify.annotations.NullMarked;
