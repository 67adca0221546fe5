/** Reading and writing tensors in files. */
@NullMarked
package io.sparktrainer.checkpoint;

import org.jspecify.annotations.NullMarked;
