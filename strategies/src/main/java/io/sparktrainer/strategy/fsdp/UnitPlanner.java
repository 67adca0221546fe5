package io.sparktrainer.strategy.fsdp;

import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.ShardUnit;
import io.sparktrainer.strategy.WrapPolicy;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.bytedeco.pytorch.Tensor;

/**
 * Divides a model into units. The model itself comes first, then the others in registration order.
 * A parameter that several units use (tied weights) is owned by the innermost unit around all of
 * them, whose parameters are there whenever theirs are.
 */
public final class UnitPlanner {
  private final Map<String, Block> blocks = new LinkedHashMap<>();
  private final Map<String, String> firstNames = new LinkedHashMap<>();
  private final Map<String, Tensor> parameters;

  private UnitPlanner(Block model) {
    Map<Block, String> named = new HashMap<>();
    model
        .blocks()
        .forEach(
            (name, block) -> {
              // A block registered under several names is one, under the first of them.
              String first = named.putIfAbsent(block, name);
              firstNames.put(name, first == null ? name : first);
              if (first == null) {
                blocks.put(name, block);
              }
            });
    this.parameters = model.parameters();
  }

  /**
   * The units of {@code model}.
   *
   * @throws IllegalArgumentException if a policy that names sizes or classes matches no block below
   *     the model
   */
  public static List<UnitPlan> plan(Block model, WrapPolicy policy) {
    UnitPlanner planner = new UnitPlanner(model);
    Set<String> units = planner.matches(policy);
    units.add("");
    return planner.assign(units);
  }

  private Set<String> matches(WrapPolicy policy) {
    if (policy instanceof WrapPolicy.MinParameters size) {
      return bySize(size.minParameters());
    }
    if (policy instanceof WrapPolicy.ClassNames classes) {
      return byClass(classes.names());
    }
    Set<String> marked = new LinkedHashSet<>();
    if (policy instanceof WrapPolicy.MarkedBlocks) {
      blocks.forEach(
          (name, block) -> {
            if (block instanceof ShardUnit) {
              marked.add(name);
            }
          });
    }
    return marked;
  }

  private Set<String> byClass(Set<String> names) {
    Set<String> units = new LinkedHashSet<>();
    Set<String> found = new TreeSet<>();
    blocks.forEach(
        (name, block) -> {
          if (name.isEmpty()) {
            return;
          }
          found.add(block.getClass().getSimpleName());
          if (names.contains(block.getClass().getSimpleName())
              || names.contains(block.getClass().getName())) {
            units.add(name);
          }
        });
    if (units.isEmpty()) {
      throw new IllegalArgumentException(
          "Cannot wrap by class: expected a block of %s below the model, got only %s."
              .formatted(new TreeSet<>(names), found));
    }
    return units;
  }

  /** Bottom-up: what is counted for a block is what no unit below it has taken. */
  private Set<String> bySize(long minParameters) {
    Map<String, Long> remaining = new HashMap<>();
    Set<Long> counted = new HashSet<>();
    blocks.forEach((name, block) -> remaining.put(name, ownNumel(block, counted)));
    Set<String> units = new LinkedHashSet<>();
    List<String> names = new ArrayList<>(blocks.keySet());
    Collections.reverse(names);
    long largest = 0;
    for (String name : names) {
      long numel = remaining.getOrDefault(name, 0L);
      if (name.isEmpty()) {
        continue;
      }
      largest = Math.max(largest, numel);
      if (numel >= minParameters) {
        units.add(name);
      } else {
        remaining.merge(parent(name), numel, Long::sum);
      }
    }
    if (units.isEmpty()) {
      throw new IllegalArgumentException(
          "Cannot wrap by size: expected a block of at least %d parameters below the model, got at most %d."
              .formatted(minParameters, largest));
    }
    return units;
  }

  private static long ownNumel(Block block, Set<Long> counted) {
    long numel = 0;
    for (Tensor parameter : block.ownParameters().values()) {
      if (counted.add(identity(parameter))) {
        numel += parameter.numel();
      }
    }
    return numel;
  }

  private List<UnitPlan> assign(Set<String> units) {
    Map<Long, String> owner = new HashMap<>();
    firstNames.forEach(
        (name, first) -> {
          String unit = enclosing(name, units);
          for (Tensor parameter : block(first).ownParameters().values()) {
            owner.merge(identity(parameter), unit, (a, b) -> common(a, b, units));
          }
        });
    Map<String, Map<String, Tensor>> owned = new LinkedHashMap<>();
    owned.put("", new LinkedHashMap<>());
    blocks.keySet().stream()
        .filter(units::contains)
        .forEach(name -> owned.putIfAbsent(name, new LinkedHashMap<>()));
    Set<Long> seen = new HashSet<>();
    parameters.forEach(
        (name, tensor) -> {
          long identity = identity(tensor);
          if (seen.add(identity)) {
            owned.getOrDefault(owner.get(identity), Map.of()).put(name, tensor);
          }
        });
    List<UnitPlan> plans = new ArrayList<>();
    owned.forEach((name, tensors) -> plans.add(new UnitPlan(name, block(name), tensors)));
    return plans;
  }

  private Block block(String name) {
    Block block = blocks.get(name);
    if (block == null) {
      throw new IllegalStateException("The model has no block \"" + name + "\".");
    }
    return block;
  }

  /** Two Java objects can stand for one tensor; libtorch's address tells. */
  private static long identity(Tensor tensor) {
    return tensor.unsafeGetTensorImpl().address();
  }

  /** The innermost unit that {@code name} is or lies in. */
  private String enclosing(String name, Set<String> units) {
    String candidate = name;
    while (!units.contains(first(candidate))) {
      candidate = parent(candidate);
    }
    return first(candidate);
  }

  private String first(String name) {
    return firstNames.getOrDefault(name, name);
  }

  private String common(String first, String second, Set<String> units) {
    String candidate = first;
    while (!contains(candidate, second)) {
      candidate = enclosing(parent(candidate), units);
    }
    return candidate;
  }

  private static boolean contains(String outer, String inner) {
    return outer.isEmpty() || inner.equals(outer) || inner.startsWith(outer + ".");
  }

  private static String parent(String name) {
    int dot = name.lastIndexOf('.');
    return dot < 0 ? "" : name.substring(0, dot);
  }
}
