/** Runs ranks as threads or processes, for tests of any package. */
@NullMarked
package io.sparktrainer.comm.testing;

import org.jspecify.annotations.NullMarked;
