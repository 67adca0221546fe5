package io.sparktrainer.comm;

/** How a reduction combines the ranks' elements. */
public enum ReduceOp {
  SUM,
  /** Sum divided by the number of ranks. */
  AVG,
  MIN,
  MAX
}
