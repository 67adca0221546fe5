package io.sparktrainer.strategy.fsdp;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Which units one forward pass called, and in what order.
 *
 * <p>Each call with a gradient makes an entry when it ends. libtorch runs backward in the reverse
 * order of forward, so when the backward of an entry begins, everything that was computed after
 * that entry has been differentiated; units that began after it have their complete gradients.
 */
final class CallLog {
  private final List<ShardedUnit> entries = new ArrayList<>();
  private final Map<ShardedUnit, Integer> begins = new HashMap<>();
  private final List<ShardedUnit> order = new ArrayList<>();

  void clear() {
    entries.clear();
    begins.clear();
    order.clear();
  }

  /** Notes that a call of {@code unit} begins. */
  void begin(ShardedUnit unit) {
    if (begins.putIfAbsent(unit, entries.size()) == null) {
      order.add(unit);
    }
  }

  /**
   * Notes that a call of {@code unit} has ended.
   *
   * @return the number of its entry
   */
  int end(ShardedUnit unit) {
    entries.add(unit);
    return entries.size() - 1;
  }

  ShardedUnit unit(int entry) {
    return entries.get(entry);
  }

  boolean wasCalled(ShardedUnit unit) {
    return begins.containsKey(unit);
  }

  /** Whether every call of {@code unit} began after {@code entry} was made. */
  boolean beganAfter(ShardedUnit unit, int entry) {
    return begins.getOrDefault(unit, 0) > entry;
  }

  /** The units in the order of their first calls. */
  List<ShardedUnit> order() {
    return List.copyOf(order);
  }
}
