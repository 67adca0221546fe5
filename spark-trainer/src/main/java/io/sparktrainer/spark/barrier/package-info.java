/**
 * One barrier stage per training: slots, rank identity, the ranks' meeting, and what becomes of a
 * rank that fails. The only package that touches Spark's barrier context.
 */
@NullMarked
package io.sparktrainer.spark.barrier;

import org.jspecify.annotations.NullMarked;
