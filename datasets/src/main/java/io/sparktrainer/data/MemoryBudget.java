package io.sparktrainer.data;

import com.sun.management.HotSpotDiagnosticMXBean;
import java.lang.management.ManagementFactory;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;

/** The direct memory that one rank may use to keep rows. Not thread-safe. */
final class MemoryBudget {
  private final long bytes;
  private long used;

  MemoryBudget(long bytes) {
    this.bytes = bytes;
  }

  /** The spec's budget, or half of what the JVM may use, shared by the ranks it may hold. */
  static MemoryBudget of(DataSpec spec, int worldSize) {
    return new MemoryBudget(
        spec.memoryBudgetBytes() > 0
            ? spec.memoryBudgetBytes()
            : directMemoryLimit() / 2 / ranksInThisJvm(worldSize));
  }

  private static long directMemoryLimit() {
    long configured =
        Long.parseLong(
            ManagementFactory.getPlatformMXBean(HotSpotDiagnosticMXBean.class)
                .getVMOption("MaxDirectMemorySize")
                .getValue());
    return configured > 0 ? configured : Runtime.getRuntime().maxMemory();
  }

  private static int ranksInThisJvm(int worldSize) {
    SparkEnv env = SparkEnv.get();
    if (env == null) {
      return worldSize;
    }
    SparkConf conf = env.conf();
    if (conf.get("spark.master", "local").startsWith("local[")
        || conf.get("spark.master", "local").equals("local")) {
      return worldSize;
    }
    int cores = conf.getInt("spark.executor.cores", Runtime.getRuntime().availableProcessors());
    return Math.max(1, Math.min(worldSize, cores / Math.max(1, conf.getInt("spark.task.cpus", 1))));
  }

  long bytes() {
    return bytes;
  }

  /** Takes memory from the budget where there is enough left. */
  boolean take(long wanted) {
    if (used + wanted > bytes) {
      return false;
    }
    used += wanted;
    return true;
  }

  /** Gives up what is left: later requests are refused. */
  void exhaust() {
    used = bytes;
  }
}
