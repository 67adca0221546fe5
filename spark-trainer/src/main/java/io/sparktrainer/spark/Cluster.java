package io.sparktrainer.spark;

import io.sparktrainer.strategy.plan.Machines;
import io.sparktrainer.torch.Device;
import java.io.Serializable;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.api.java.JavaSparkContext;

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
   */
  record HostFacts(String host, long availableBytes) implements Serializable {
    private static HostFacts here() {
      try {
        return new HostFacts(InetAddress.getLocalHost().getHostName(), HostMemory.availableBytes());
      } catch (UnknownHostException e) {
        return new HostFacts("localhost", HostMemory.availableBytes());
      }
    }
  }

  /** Asks the executors, in a short job. */
  static Machines of(SparkContext spark, int ranks) {
    List<Integer> tasks = Collections.nCopies(TASKS_PER_RANK * ranks, 0);
    List<HostFacts> found =
        JavaSparkContext.fromSparkContext(spark)
            .parallelize(tasks, tasks.size())
            .map(task -> HostFacts.here())
            .collect();
    return of(found, ranks);
  }

  /** Ranks dealt out equally over the hosts found; the smallest host decides. */
  static Machines of(List<HostFacts> found, int ranks) {
    Map<String, Long> available = new HashMap<>();
    for (HostFacts facts : found) {
      available.merge(facts.host(), facts.availableBytes(), Math::min);
    }
    int hosts = Math.min(available.size(), ranks);
    while (ranks % hosts != 0) {
      hosts--;
    }
    long smallest = Collections.min(available.values());
    return new Machines(Device.Type.CPU, smallest / (ranks / hosts), hosts, ranks);
  }

  /** This machine for all ranks, without Spark. */
  static Machines local(int ranks) {
    return new Machines(Device.Type.CPU, HostMemory.availableBytes() / ranks, 1, ranks);
  }
}
