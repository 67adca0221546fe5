package io.sparktrainer.nn;

import org.bytedeco.pytorch.Tensor;

/** Acts before, after or instead of a block's forward computation. */
@FunctionalInterface
public interface BlockInterceptor {
  /**
   * Runs in place of the block's forward computation.
   *
   * @param block the block being called
   * @param inputs its inputs
   * @param next runs what is inside: the other interceptors, then the block's forward
   * @return the block's output
   */
  Tensor intercept(Block block, Tensor[] inputs, Forward next);

  /** The rest of a call. */
  @FunctionalInterface
  interface Forward {
    Tensor apply(Tensor... inputs);
  }
}
