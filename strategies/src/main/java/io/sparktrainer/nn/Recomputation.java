package io.sparktrainer.nn;

/**
 * Tells hooks whether the calling thread is inside the recomputation of a checkpointed block. Hooks
 * on parameters then see the gradients of that one call; the sum over all calls follows, in the
 * outer backward pass, once per parameter.
 */
public final class Recomputation {
  private static final ThreadLocal<Integer> DEPTH = ThreadLocal.withInitial(() -> 0);

  private Recomputation() {}

  /** Whether gradients that reach hooks on this thread are those of one recomputed call. */
  public static boolean isActive() {
    return DEPTH.get() > 0;
  }

  static void enter() {
    DEPTH.set(DEPTH.get() + 1);
  }

  static void leave() {
    DEPTH.set(DEPTH.get() - 1);
  }
}
