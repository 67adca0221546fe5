package io.sparktrainer.nn;

import io.sparktrainer.torch.NativeScope;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.bytedeco.pytorch.TensorBase;
import org.bytedeco.pytorch.VoidTensorHook;

/**
 * Stays on the output of a checkpointed call after the call's own hook has gone, and fails a
 * backward pass that comes too late. It is never freed, because nobody knows when a graph ends.
 */
final class SecondBackward extends VoidTensorHook {
  private static final Map<String, SecondBackward> GUARDS = new ConcurrentHashMap<>();
  private static final ThreadLocal<Boolean> HANDLED = ThreadLocal.withInitial(() -> false);

  private final String blockName;

  private SecondBackward(String blockName) {
    this.blockName = blockName;
  }

  /** One per name, so that their number is bounded by the names of blocks. */
  static SecondBackward guard(String blockName) {
    return GUARDS.computeIfAbsent(blockName, name -> NativeScope.keep(new SecondBackward(name)));
  }

  /** Says, just before a guard runs, that the call's own hook has run. */
  static void handled() {
    HANDLED.set(true);
  }

  @Override
  public void call(TensorBase gradient) {
    gradient.close();
    if (!HANDLED.get()) {
      throw error(blockName);
    }
    HANDLED.set(false);
  }

  static IllegalStateException error(String blockName) {
    return new IllegalStateException(
        "Cannot run backward through block %s: expected one backward pass per forward pass, but what was kept for it is already freed. Run forward again, or switch activation checkpointing off."
            .formatted(blockName));
  }
}
