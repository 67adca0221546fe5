package io.sparktrainer.strategy.plan;

import io.sparktrainer.strategy.fsdp.FlatLayout;
import io.sparktrainer.torch.DType;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.ToIntFunction;

/**
 * How {@code fsdp} lays a model out over its ranks: each unit is one flat buffer per type and
 * trainability, padded and cut into equal pieces.
 *
 * @param units the units, neighbours in the order in which they compute
 * @param ranks all ranks
 * @param shardGroup ranks that hold one copy of the model between them; divides {@code ranks}
 */
record ShardLayout(List<UnitOutline> units, int ranks, int shardGroup) {
  ShardLayout {
    units = List.copyOf(units);
    if (units.isEmpty()) {
      throw new IllegalArgumentException("Cannot shard a model: expected at least one unit.");
    }
    if (ranks < 1 || shardGroup < 1 || ranks % shardGroup != 0) {
      int groups = shardGroup < 1 ? 0 : ranks / shardGroup;
      throw new IllegalArgumentException(
          "Cannot shard over %d ranks: expected shard groups of a size that divides them, got %d (%d x %d = %d)."
              .formatted(ranks, shardGroup, groups, shardGroup, groups * shardGroup));
    }
  }

  /** Whose flat buffers are counted. */
  enum Of {
    PARAMETERS,
    GRADIENTS
  }

  /** Groups that hold one copy of the model each. */
  int replicas() {
    return ranks / shardGroup;
  }

  /** Units that contain others, and are in use for as long as any of those is. */
  List<UnitOutline> outerUnits() {
    return units.stream().filter(this::isOuter).toList();
  }

  /** Units that compute one after the other. */
  List<UnitOutline> innerUnits() {
    return units.stream().filter(unit -> !isOuter(unit)).toList();
  }

  private boolean isOuter(UnitOutline unit) {
    String prefix = unit.name().isEmpty() ? "" : unit.name() + ".";
    return units.stream()
        .anyMatch(other -> !other.name().equals(unit.name()) && other.name().startsWith(prefix));
  }

  /** Bytes of a unit's whole flat buffers, {@code bytes} for an element of a type. */
  long whole(UnitOutline unit, Of what, ToIntFunction<DType> bytes) {
    return flats(unit, what).entrySet().stream()
        .mapToLong(flat -> flat.getValue().paddedNumel() * bytes.applyAsInt(flat.getKey().dtype()))
        .sum();
  }

  /** Bytes of the whole flat buffers of several units. */
  long whole(List<UnitOutline> some, Of what, ToIntFunction<DType> bytes) {
    return some.stream().mapToLong(unit -> whole(unit, what, bytes)).sum();
  }

  /** Bytes of one rank's shards of all units. */
  long shards(Of what, ToIntFunction<DType> bytes) {
    return whole(units, what, bytes) / shardGroup;
  }

  private Map<Kind, FlatLayout> flats(UnitOutline unit, Of what) {
    Map<Kind, List<Long>> numels = new LinkedHashMap<>();
    for (ParameterOutline parameter : unit.parameters()) {
      if (parameter.trainable() || what == Of.PARAMETERS) {
        numels
            .computeIfAbsent(
                new Kind(parameter.dtype(), parameter.trainable()), kind -> new ArrayList<>())
            .add(parameter.numel());
      }
    }
    Map<Kind, FlatLayout> flats = new LinkedHashMap<>();
    numels.forEach((kind, sizes) -> flats.put(kind, new FlatLayout(sizes, shardGroup)));
    return flats;
  }

  private record Kind(DType dtype, boolean trainable) {}
}
