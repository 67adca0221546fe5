/** Which GPUs a rank computes on: what Spark gave its task, as its process sees it. */
@NullMarked
package io.sparktrainer.spark.resource;

import org.jspecify.annotations.NullMarked;
