/** Helpers for tests of this and other modules. */
@NullMarked
package io.sparktrainer.testing;

import org.jspecify.annotations.NullMarked;
