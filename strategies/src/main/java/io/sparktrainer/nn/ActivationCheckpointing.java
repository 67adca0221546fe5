package io.sparktrainer.nn;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Activation checkpointing (Chen et al., arXiv 1604.06174): of each chosen block only the inputs
 * are kept for backward, and the rest is computed a second time when backward gets there. Costs
 * about one more forward pass of these blocks; saves their activations.
 *
 * <p>Gradients are exactly those without checkpointing:
 *
 * <ul>
 *   <li>Dropout repeats, because the thread's random state is put back for the second computation;
 *       so does autocast.
 *   <li>Buffers that the block changes, such as running means, change once.
 *   <li>Parameters' gradients join the outer backward pass, so a block called several times, or one
 *       that shares parameters with others, accumulates each parameter once, and hooks on
 *       parameters fire once with the sum (during the second computation {@link
 *       Recomputation#isActive()} tells them to look away). Parameters that a call leaves out get
 *       no gradient from it.
 *   <li>Inputs may be several, with or without gradient.
 * </ul>
 *
 * <p>An input or a used parameter that is changed in place before backward gets there, a second
 * backward pass over the same call, and second derivatives are errors, which name the block. The
 * block's mode (training or evaluation) must stay the same until backward.
 *
 * <p><b>Order of interceptors.</b> Install it on a model before a strategy adds its own
 * interceptors, so that those are outside: a sharding strategy then gathers a unit once for the
 * second computation and the backward pass together, because its hook on the unit's output runs
 * before the one that recomputes. One thread at a time uses it.
 */
public final class ActivationCheckpointing implements AutoCloseable {
  private final List<Installed> installed = new ArrayList<>();
  private final List<CheckpointedCall> waiting = new ArrayList<>();
  private final Deque<CheckpointedCall> finished = new ArrayDeque<>();
  private @Nullable RuntimeException failure;
  private long recomputations;

  private record Installed(Block block, BlockInterceptor interceptor) {}

  private ActivationCheckpointing() {}

  /**
   * Checkpoints the blocks of {@code model} that {@code policy} chooses; a chosen block inside
   * another one is checkpointed inside the second computation of the outer one.
   *
   * @throws IllegalArgumentException if the policy chooses no block
   */
  public static ActivationCheckpointing install(Block model, CheckpointPolicy policy) {
    ActivationCheckpointing checkpointing = new ActivationCheckpointing();
    model
        .blocks()
        .forEach(
            (name, block) -> {
              if (policy.chooses(name, block)) {
                checkpointing.add(name.isEmpty() ? block.toString() : name, block);
              }
            });
    if (checkpointing.installed.isEmpty()) {
      throw new IllegalArgumentException(
          "Cannot checkpoint activations of %s: expected a policy that chooses at least one block, got none of %s. Name other blocks, or set activation_checkpointing to none."
              .formatted(model, names(model.blocks())));
    }
    return checkpointing;
  }

  private static String names(Map<String, Block> blocks) {
    return blocks.entrySet().stream()
        .map(entry -> entry.getKey() + " (" + entry.getValue() + ")")
        .toList()
        .toString();
  }

  private void add(String name, Block block) {
    BlockInterceptor interceptor = new CheckpointedBlock(name, block, this);
    block.intercept(interceptor);
    installed.add(new Installed(block, interceptor));
  }

  /** How many blocks are checkpointed. */
  public int size() {
    return installed.size();
  }

  /** How many calls have been computed a second time so far. */
  public long recomputations() {
    return recomputations;
  }

  /**
   * Forgets calls that no backward pass has reached, with the inputs kept for them. Strategies call
   * it after each backward pass; whoever drops a graph without one calls it too.
   */
  public void release() {
    freeFinished();
    releaseSince(0);
    failure = null;
  }

  /**
   * The exception behind the failure of a backward pass, whose own type is lost on its way through
   * libtorch, or {@code backwardFailure} itself where no second computation failed.
   */
  public RuntimeException causeOf(RuntimeException backwardFailure) {
    return failure == null ? backwardFailure : failure;
  }

  void failed(RuntimeException cause) {
    failure = cause;
  }

  void recomputed() {
    recomputations++;
  }

  void waits(CheckpointedCall call) {
    waiting.add(call);
  }

  /** A hook cannot be removed while it runs, so its call is only freed when another one acts. */
  void finished(CheckpointedCall call) {
    waiting.remove(call);
    finished.add(call);
  }

  void freeFinished() {
    while (!finished.isEmpty()) {
      finished.remove().free();
    }
  }

  int waitingCalls() {
    return waiting.size();
  }

  /** Forgets calls made since {@link #waitingCalls()} was {@code mark}. */
  void releaseSince(int mark) {
    List<CheckpointedCall> dropped = waiting.subList(mark, waiting.size());
    dropped.forEach(CheckpointedCall::free);
    dropped.clear();
  }

  /** Takes checkpointing away from all blocks. */
  @Override
  public void close() {
    installed.forEach(entry -> entry.block().removeInterceptor(entry.interceptor()));
    installed.clear();
    release();
  }
}
