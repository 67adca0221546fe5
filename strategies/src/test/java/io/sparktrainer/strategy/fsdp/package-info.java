/** Tests of fully sharded data parallel, with ranks as threads. */
@NullMarked
package io.sparktrainer.strategy.fsdp;

import org.jspecify.annotations.NullMarked;
