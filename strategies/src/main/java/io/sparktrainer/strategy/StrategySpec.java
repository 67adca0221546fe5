package io.sparktrainer.strategy;

import java.util.List;

/** Which parallel strategy to use, with its options. */
public sealed interface StrategySpec {
  /**
   * The name in a configuration: {@code none}, {@code dp}, {@code ddp}, {@code fsdp}, {@code auto}.
   */
  String name();

  /** How many ranks (barrier tasks) this strategy wants. */
  int workers();

  /**
   * One rank on one device, for debugging and inference, and the reference for all others.
   *
   * @param deviceId index, among the GPUs that the rank sees, of the one that it is to use; 0 on
   *     the CPU. Whoever starts the rank makes it {@link ComputeOptions#device()}
   */
  record None(int deviceId) implements StrategySpec {
    public None {
      if (deviceId < 0) {
        throw new IllegalArgumentException(
            "Cannot use device_id " + deviceId + ": expected 0 or more.");
      }
    }

    @Override
    public String name() {
      return "none";
    }

    @Override
    public int workers() {
      return 1;
    }
  }

  /**
   * One rank with several replicas, each on its own thread and its own device or, on the CPU, its
   * own share of the cores.
   *
   * @param deviceIds indices of the CUDA devices, the first of which keeps the model; empty for the
   *     CPU
   * @param replicas number of replicas
   */
  record Dp(List<Integer> deviceIds, int replicas) implements StrategySpec {
    public Dp {
      deviceIds = List.copyOf(deviceIds);
      if (replicas < 1) {
        throw new IllegalArgumentException(
            "Cannot use dp: expected at least 1 replica, got " + replicas + ".");
      }
      boolean distinct = deviceIds.stream().distinct().count() == deviceIds.size();
      boolean negative = deviceIds.stream().anyMatch(id -> id < 0);
      if (!deviceIds.isEmpty() && (deviceIds.size() != replicas || !distinct || negative)) {
        throw new IllegalArgumentException(
            "Cannot use dp with device_ids %s: expected %d different indices from 0 up, one per replica, or none for the CPU."
                .formatted(deviceIds, replicas));
      }
    }

    /** {@code replicas} replicas that share the cores and the parameters' memory. */
    public static Dp onCpu(int replicas) {
      return new Dp(List.of(), replicas);
    }

    /** One replica on each of these CUDA devices. */
    public static Dp onDevices(List<Integer> deviceIds) {
      return new Dp(deviceIds, deviceIds.size());
    }

    @Override
    public String name() {
      return "dp";
    }

    @Override
    public int workers() {
      return 1;
    }
  }

  /** A replica per rank, gradients averaged over the ranks while backward runs. */
  record Ddp(int workers, DdpOptions options) implements StrategySpec {
    public Ddp {
      requireWorkers("ddp", workers);
    }

    @Override
    public String name() {
      return "ddp";
    }
  }

  /** Parameters, gradients and optimizer state cut into shards, one per rank. */
  record Fsdp(int workers, FsdpOptions options) implements StrategySpec {
    public Fsdp {
      requireWorkers("fsdp", workers);
      Integer group = options.shardGroupSize();
      if (group != null && workers % group != 0) {
        throw new IllegalArgumentException(
            "Cannot use shard_group_size %d with %d workers: expected a divisor of the number of workers."
                .formatted(group, workers));
      }
    }

    @Override
    public String name() {
      return "fsdp";
    }
  }

  /**
   * What the planner chooses for the model and the machines.
   *
   * @param workers ranks to plan for
   * @param ddp options of ddp, should it be chosen
   * @param fsdp options of fsdp, should it be chosen
   */
  record Auto(int workers, DdpOptions ddp, FsdpOptions fsdp) implements StrategySpec {
    public Auto {
      requireWorkers("auto", workers);
    }

    @Override
    public String name() {
      return "auto";
    }
  }

  private static void requireWorkers(String strategy, int workers) {
    if (workers < 1) {
      throw new IllegalArgumentException(
          "Cannot use %s: expected at least 1 worker, got %d.".formatted(strategy, workers));
    }
  }
}
