package io.sparktrainer.strategy.fsdp;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * The gathers of one pass, forward or backward, in an order that all ranks agree on.
 *
 * <p>A rank that needs a unit first starts the gathers of the units before it, whether it uses them
 * or not, and at the end of the pass it starts those that are left. So ranks may leave out
 * different units, and still issue the same collectives in the same order: nothing waits for a rank
 * that never comes. A unit called again after it was freed is gathered once more, which every rank
 * has to do equally often.
 */
final class GatherQueue {
  private final Map<ShardedUnit, Integer> position = new HashMap<>();
  private final List<ShardedUnit> issued = new ArrayList<>();
  private final Deque<ShardedUnit> underWay = new ArrayDeque<>();
  private final int most;
  private List<ShardedUnit> sequence = List.of();
  private int next;

  /**
   * @param most gathers that may be under way at a time: before one more the host waits for the
   *     first of them
   */
  GatherQueue(int most) {
    this.most = most;
  }

  /**
   * Starts a pass.
   *
   * @param order the units in the order in which they are gathered; those that are gathered already
   *     are left out
   */
  void begin(List<ShardedUnit> order) {
    sequence = order.stream().filter(ShardedUnit::isSharded).toList();
    position.clear();
    for (int i = 0; i < sequence.size(); i++) {
      position.put(sequence.get(i), i);
    }
    issued.clear();
    underWay.clear();
    next = 0;
  }

  /** Starts the gather of {@code unit}, and of those before it, unless that was done. */
  void start(ShardedUnit unit) {
    startUpTo(position.getOrDefault(unit, -1));
    if (unit.isSharded()) {
      issue(unit);
    }
  }

  /** Starts the gathers of up to {@code count} units that come after {@code unit}. */
  void startAfter(ShardedUnit unit, int count) {
    Integer place = position.get(unit);
    if (place != null) {
      startUpTo((int) Math.min(sequence.size() - 1L, (long) place + count));
    }
  }

  private void startUpTo(int last) {
    while (next <= last) {
      issue(sequence.get(next++));
    }
  }

  private void issue(ShardedUnit unit) {
    issued.add(unit);
    while (underWay.size() >= most) {
      underWay.remove().awaitGather();
    }
    unit.startGather();
    underWay.add(unit);
  }

  /** Returns once {@code unit} is gathered. */
  void require(ShardedUnit unit) {
    start(unit);
    unit.finishGather();
  }

  /** Whether the pass still has to gather {@code unit} for the first time. */
  boolean isOutstanding(ShardedUnit unit) {
    return position.getOrDefault(unit, -1) >= next;
  }

  /** Whether the pass gathers {@code unit} after {@code other}. */
  boolean comesAfter(ShardedUnit unit, ShardedUnit other) {
    return position.getOrDefault(unit, -1) > position.getOrDefault(other, -1);
  }

  /** All gathers of the pass so far, in order. */
  List<ShardedUnit> issued() {
    return List.copyOf(issued);
  }
}
