package io.sparktrainer.strategy;

/** When {@code fsdp} starts to gather the unit whose backward comes next. */
public enum BackwardPrefetch {
  /** Before the current unit's backward: most overlap, two units gathered at a time. */
  BACKWARD_PRE,
  /** After the current unit's backward, before its gradients are reduced. */
  BACKWARD_POST,
  /** Only when it is needed: one unit gathered at a time, no overlap. */
  NONE
}
