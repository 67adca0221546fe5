package io.sparktrainer.spark;

import io.sparktrainer.spark.resource.CudaGpus;
import io.sparktrainer.spark.resource.DeviceRequest.Kind;
import io.sparktrainer.spark.resource.GpuListing;
import io.sparktrainer.strategy.plan.Machines;
import io.sparktrainer.torch.Device;
import java.io.Serializable;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.SparkContext;
import org.apache.spark.api.java.JavaSparkContext;
import org.jspecify.annotations.Nullable;

/** The machines on which a Spark application can run ranks. */
final class Cluster {
  /** Tasks per rank in the job that looks at executors, so that it reaches all of them. */
  private static final int TASKS_PER_RANK = 4;

  private Cluster() {}

  /**
   * What one executor tells.
   *
   * @param host its machine
   * @param availableBytes memory that processes there can still get
   * @param gpuBytes free memory of each GPU that it can use, by the GPU's UUID
   * @param gpuProblem why it can use none; null where it can, or nobody asked
   */
  record HostFacts(
      String host, long availableBytes, TreeMap<String, Long> gpuBytes, @Nullable String gpuProblem)
      implements Serializable {
    private static HostFacts here(Kind kind) {
      TreeMap<String, Long> gpuBytes = new TreeMap<>();
      String problem = null;
      if (kind != Kind.CPU) {
        GpuListing listing = new CudaGpus().find();
        listing.gpus().forEach(gpu -> gpuBytes.put(gpu.uuid(), gpu.freeBytes()));
        problem = listing.problem();
      }
      return new HostFacts(name(), HostMemory.availableBytes(), gpuBytes, problem);
    }

    private static String name() {
      try {
        return InetAddress.getLocalHost().getHostName();
      } catch (UnknownHostException e) {
        return "localhost";
      }
    }
  }

  /** Asks the executors, in a short job. */
  static Machines of(SparkContext spark, int ranks, Kind kind) {
    List<Integer> tasks = Collections.nCopies(TASKS_PER_RANK * ranks, 0);
    List<HostFacts> found =
        JavaSparkContext.fromSparkContext(spark)
            .parallelize(tasks, tasks.size())
            .map(task -> HostFacts.here(kind))
            .collect();
    return of(found, ranks, kind);
  }

  /**
   * Ranks dealt out equally over the hosts found; the smallest host, or the fullest GPU, decides.
   *
   * @throws IllegalArgumentException if GPUs are asked for, and a host has too few
   */
  static Machines of(List<HostFacts> found, int ranks, Kind kind) {
    Map<String, HostFacts> byHost = new TreeMap<>();
    found.forEach(facts -> byHost.merge(facts.host(), facts, Cluster::join));
    int hosts = Math.min(byHost.size(), ranks);
    while (ranks % hosts != 0) {
      hosts--;
    }
    int perHost = ranks / hosts;
    if (kind != Kind.CPU) {
      HostFacts poorest =
          Collections.min(byHost.values(), Comparator.comparing(facts -> facts.gpuBytes().size()));
      if (poorest.gpuBytes().size() >= perHost) {
        long fullest =
            byHost.values().stream()
                .flatMap(facts -> facts.gpuBytes().values().stream())
                .min(Comparator.naturalOrder())
                .orElseThrow();
        return new Machines(Device.Type.CUDA, Math.max(1, fullest), hosts, ranks);
      }
      if (kind == Kind.CUDA) {
        throw new IllegalArgumentException(
            "Cannot plan for GPUs: expected %d on each host, got %d on host %s%s. Give --memory to plan for GPUs that are not here, or set device.type to cpu or auto."
                .formatted(
                    perHost,
                    poorest.gpuBytes().size(),
                    poorest.host(),
                    poorest.gpuProblem() == null ? "" : ": " + poorest.gpuProblem()));
      }
    }
    long smallest =
        byHost.values().stream().mapToLong(HostFacts::availableBytes).min().orElseThrow();
    return new Machines(Device.Type.CPU, smallest / perHost, hosts, ranks);
  }

  private static HostFacts join(HostFacts a, HostFacts b) {
    TreeMap<String, Long> gpuBytes = new TreeMap<>(a.gpuBytes());
    b.gpuBytes().forEach((uuid, bytes) -> gpuBytes.merge(uuid, bytes, Math::min));
    return new HostFacts(
        a.host(),
        Math.min(a.availableBytes(), b.availableBytes()),
        gpuBytes,
        a.gpuProblem() == null ? b.gpuProblem() : a.gpuProblem());
  }

  /** This machine for all ranks, without Spark. */
  static Machines local(int ranks, Kind kind) {
    return of(List.of(HostFacts.here(kind)), ranks, kind);
  }

  /** GPUs that are not here. */
  static Machines imagined(int ranks, long gpuBytes) {
    return new Machines(Device.Type.CUDA, gpuBytes, 1, ranks);
  }
}
