package io.sparktrainer.strategy.fsdp;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * The gradient reductions of one backward pass, in an order that all ranks agree on: a unit whose
 * gradients are complete is reduced when all units before it are.
 */
final class ReduceQueue {
  private static final long POLL_NANOS = TimeUnit.MICROSECONDS.toNanos(50);
  private static final long LEAST_PATIENCE_NANOS = TimeUnit.MILLISECONDS.toNanos(20);

  private final Set<ShardedUnit> complete = new HashSet<>();
  private final Deque<FlatGradient> scattering = new ArrayDeque<>();
  private final Deque<FlatGradient> replicating = new ArrayDeque<>();
  private List<ShardedUnit> sequence = List.of();
  private int next;
  private long patienceNanos = TimeUnit.SECONDS.toNanos(2);
  private boolean patient;

  /**
   * Starts a pass.
   *
   * @param order units in the order in which they are reduced
   */
  void begin(List<ShardedUnit> order) {
    sequence = List.copyOf(order);
    complete.clear();
    next = 0;
    patient = true;
  }

  boolean isComplete(ShardedUnit unit) {
    return complete.contains(unit);
  }

  /** Notes that this rank's gradients of {@code unit} are complete; reduces what may be reduced. */
  void complete(ShardedUnit unit) {
    complete.add(unit);
    while (next < sequence.size() && isComplete(sequence.get(next))) {
      scattering.addAll(sequence.get(next++).startReductions());
    }
    advance();
  }

  /** Takes further what can be taken further without waiting. */
  private void advance() {
    while (!scattering.isEmpty() && scattering.element().isStepDone()) {
      replicate();
    }
    while (!replicating.isEmpty() && replicating.element().isStepDone()) {
      replicating.remove().finish();
    }
  }

  private void replicate() {
    FlatGradient gradient = scattering.remove();
    gradient.startReplicating();
    replicating.add(gradient);
  }

  /**
   * Waits until the memory of all whole gradients but {@code count} is free again. Peers that run
   * units in another order may need a gather of this rank before they reduce, so the wait is
   * bounded, and once it was in vain the pass does without, and later passes wait less.
   */
  void throttle(int count) {
    long deadline = System.nanoTime() + patienceNanos;
    advance();
    while (patient && scattering.size() + replicating.size() > count) {
      LockSupport.parkNanos(POLL_NANOS);
      advance();
      if (System.nanoTime() >= deadline) {
        patient = false;
        patienceNanos = Math.max(LEAST_PATIENCE_NANOS, patienceNanos / 4);
      }
    }
  }

  /** Waits for all reductions; every unit of the pass has to be complete. */
  void finish() {
    if (next < sequence.size()) {
      throw new IllegalStateException(
          "Cannot finish reductions: the gradients of %s are not complete."
              .formatted(sequence.get(next)));
    }
    while (!scattering.isEmpty()) {
      replicate();
    }
    while (!replicating.isEmpty()) {
      replicating.remove().finish();
    }
  }
}
