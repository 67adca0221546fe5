/** Short programs that train on real or made data. */
@NullMarked
package io.sparktrainer.examples;

import org.jspecify.annotations.NullMarked;
