/** The figures of a training on their way from the ranks to the driver, console and run folder. */
@NullMarked
package io.sparktrainer.spark.metrics;

import org.jspecify.annotations.NullMarked;
