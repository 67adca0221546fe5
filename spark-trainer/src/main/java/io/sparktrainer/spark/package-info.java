/** Training a DataFrame's rows from one call: the entry point of the library. */
@NullMarked
package io.sparktrainer.spark;

import org.jspecify.annotations.NullMarked;
