/** Spark sessions for tests, here and in other modules. */
@NullMarked
package io.sparktrainer.spark.testing;

import org.jspecify.annotations.NullMarked;
