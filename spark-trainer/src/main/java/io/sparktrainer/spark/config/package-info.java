/** The configuration of a training: records, the YAML that they are read from and written to. */
@NullMarked
package io.sparktrainer.spark.config;

import org.jspecify.annotations.NullMarked;
