/** The command line. */
@NullMarked
package io.sparktrainer.spark.cli;

import org.jspecify.annotations.NullMarked;
