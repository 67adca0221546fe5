package io.sparktrainer.strategy.fsdp;

import io.sparktrainer.comm.ByteExchange;
import io.sparktrainer.comm.CollectiveCounts;
import io.sparktrainer.comm.Communicator;
import io.sparktrainer.strategy.FsdpOptions;
import io.sparktrainer.strategy.ShardingStrategy;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;

/**
 * The groups one rank is in: it holds one shard of {@code shardCount} among the ranks of its shard
 * group, and the ranks that hold the same shard of other replicas are its replica group.
 *
 * <p>Gathers and reductions have groups of their own, because the order of one relative to the
 * other may differ between ranks; within each the order is the same everywhere.
 */
final class ShardGroups implements AutoCloseable {
  private final Communicator world;
  private final Communicator gather;
  private final Communicator reduce;
  private final Communicator replicas;

  private ShardGroups(Communicator world, int[] shardRanks, int[] replicaRanks) {
    this.world = world;
    boolean whole = shardRanks.length == world.worldSize();
    this.gather = whole ? world : world.subGroup("fsdp-gather", shardRanks);
    this.reduce = world.subGroup("fsdp-reduce", shardRanks);
    this.replicas = world.subGroup("fsdp-replicas", replicaRanks);
  }

  /**
   * Divides {@code world}; all ranks call it together.
   *
   * @throws IllegalArgumentException if the shard group does not divide the world, or hosts have
   *     different numbers of ranks
   */
  static ShardGroups divide(Communicator world, FsdpOptions options) {
    int[][] groups = shardGroups(world, options);
    int own = 0;
    while (Arrays.stream(groups[own]).noneMatch(rank -> rank == world.rank())) {
      own++;
    }
    int place = Arrays.binarySearch(groups[own], world.rank());
    int[] replicaRanks = Arrays.stream(groups).mapToInt(group -> group[place]).sorted().toArray();
    return new ShardGroups(world, groups[own], replicaRanks);
  }

  private static int[][] shardGroups(Communicator world, FsdpOptions options) {
    int worldSize = world.worldSize();
    if (options.shardingStrategy() != ShardingStrategy.HYBRID_SHARD) {
      boolean whole = options.shardingStrategy() != ShardingStrategy.NO_SHARD;
      return consecutive(worldSize, whole ? worldSize : 1);
    }
    Integer size = options.shardGroupSize();
    if (size == null) {
      return byHost(names(world));
    }
    if (worldSize % size != 0) {
      throw new IllegalArgumentException(
          "Cannot use shard_group_size %d: expected a divisor of world size %d (rank %d)."
              .formatted(size, worldSize, world.rank()));
    }
    return consecutive(worldSize, size);
  }

  static int[][] consecutive(int worldSize, int groupSize) {
    return IntStream.range(0, worldSize / groupSize)
        .mapToObj(g -> IntStream.range(g * groupSize, (g + 1) * groupSize).toArray())
        .toArray(int[][]::new);
  }

  /** One group per host, the ranks ascending. */
  static int[][] byHost(List<String> hostOfRank) {
    Map<String, List<Integer>> ranks = new LinkedHashMap<>();
    for (int rank = 0; rank < hostOfRank.size(); rank++) {
      ranks.computeIfAbsent(hostOfRank.get(rank), host -> new ArrayList<>()).add(rank);
    }
    int[][] groups =
        ranks.values().stream()
            .map(list -> list.stream().mapToInt(Integer::intValue).toArray())
            .toArray(int[][]::new);
    if (Arrays.stream(groups).anyMatch(group -> group.length != groups[0].length)) {
      throw new IllegalArgumentException(
          "Cannot use HYBRID_SHARD by host: expected the same number of ranks on every host, got %s. Set fsdp.shard_group_size."
              .formatted(ranks));
    }
    return groups;
  }

  private static List<String> names(Communicator world) {
    byte[] mine = hostName().getBytes(StandardCharsets.UTF_8);
    return Arrays.stream(ByteExchange.allGather(world, mine))
        .map(name -> new String(name, StandardCharsets.UTF_8))
        .toList();
  }

  private static String hostName() {
    try {
      return InetAddress.getLocalHost().getHostName();
    } catch (UnknownHostException e) {
      // Ranks that don't know their host can't be told apart from others; the size can be set.
      return "unknown";
    }
  }

  Communicator world() {
    return world;
  }

  /** For gathers of parameters, in the shard group. */
  Communicator gather() {
    return gather;
  }

  /** For reduce-scatters of gradients, in the shard group. */
  Communicator reduce() {
    return reduce;
  }

  /** For all-reduces of gradient shards over the replicas. */
  Communicator replicas() {
    return replicas;
  }

  int shardCount() {
    return reduce.worldSize();
  }

  int shardIndex() {
    return reduce.rank();
  }

  int replicaCount() {
    return replicas.worldSize();
  }

  /** What went through each group so far. */
  Map<String, CollectiveCounts> counts() {
    Map<String, CollectiveCounts> counts = new LinkedHashMap<>();
    counts.put("world", world.counts());
    if (gather != world) {
      counts.put("gather", gather.counts());
    }
    counts.put("reduce", reduce.counts());
    counts.put("replicas", replicas.counts());
    return counts;
  }

  /** Closes the groups, but not the world they were split from. */
  @Override
  public void close() {
    replicas.close();
    reduce.close();
    if (gather != world) {
      gather.close();
    }
  }
}
