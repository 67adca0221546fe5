package io.sparktrainer.spark.barrier;

import io.sparktrainer.comm.Communicator;
import io.sparktrainer.comm.GlooCommunicator;
import io.sparktrainer.comm.LocalCommunicator;
import io.sparktrainer.comm.Rendezvous;
import io.sparktrainer.comm.StoreServer;
import io.sparktrainer.torch.Threads;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.spark.BarrierTaskContext;
import org.apache.spark.BarrierTaskInfo;
import org.apache.spark.SparkEnv;
import org.apache.spark.util.TaskInterruptListener;
import org.jspecify.annotations.Nullable;

/**
 * One rank inside its barrier task: who it is, and its communicator once the ranks have met.
 *
 * <p>When Spark kills the task, for whatever reason, the communicator is aborted at once, so that a
 * rank that waits for a peer inside native code gives its slot back.
 */
public final class Rank {
  private static final int STORE_SECONDS = 5;

  private final BarrierTaskContext context;
  private final int number;
  private final String[] hosts;
  private final String device;
  private final int threads;
  private final int timeoutSeconds;
  private final CountDownLatch killed = new CountDownLatch(1);
  private final Object lock = new Object();
  private boolean ended;
  private @Nullable StoreServer store;
  private @Nullable Communicator communicator;
  private List<RankFacts> facts = List.of();
  private volatile String doing = "starting";

  private Rank(BarrierTaskContext context, Placement placement, StageOptions options) {
    this.context = context;
    // The task's own number would change when a stage is run again; the partition's does not.
    this.number = context.partitionId();
    this.device = options.device();
    this.timeoutSeconds = options.timeoutSeconds();
    BarrierTaskInfo[] tasks = context.getTaskInfos();
    this.hosts = new String[tasks.length];
    int sharing = 0;
    for (int i = 0; i < tasks.length; i++) {
      hosts[i] = host(tasks[i].address());
      sharing += tasks[i].address().equals(tasks[number].address()) ? 1 : 0;
    }
    int cores = Math.min(placement.executorCores(), Runtime.getRuntime().availableProcessors());
    this.threads = Threads.share(cores, sharing);
  }

  static Rank join(BarrierTaskContext context, Placement placement, StageOptions options) {
    Rank rank = new Rank(context, placement, options);
    TaskInterruptListener listener = (ignored, reason) -> rank.kill(reason);
    BarrierTaskContext unused = context.addTaskInterruptListener(listener);
    return rank;
  }

  private static String host(String address) {
    int colon = address.lastIndexOf(':');
    return colon < 0 ? address : address.substring(0, colon);
  }

  /** This rank's number, from 0: the number of its partition. */
  public int rank() {
    return number;
  }

  /** Number of ranks. */
  public int worldSize() {
    return hosts.length;
  }

  /** The executor's host, as the other ranks reach it. */
  public String host() {
    return hosts[number];
  }

  /** What the rank computes on. */
  public String device() {
    return device;
  }

  /** Processor threads that the rank may use: its share of its executor's cores. */
  public int threads() {
    return threads;
  }

  /** Says what the rank is about to do, for the message of a failure: {@code "step 12"}. */
  public void doing(String what) {
    this.doing = what;
  }

  String doing() {
    return doing;
  }

  /** What every rank told the others, by rank; empty before {@link #meet}. */
  public List<RankFacts> facts() {
    return facts;
  }

  /**
   * Meets the other ranks: one round through the driver in which all learn where rank 0's store is
   * and that all have the same model and options, then the connection between them. All ranks call
   * it once.
   *
   * @param rows rows that this rank trains on
   * @return the group of all ranks; this object closes it
   * @throws IllegalStateException on every rank if their fingerprints differ
   */
  public Communicator meet(Fingerprint fingerprint, long rows) {
    doing("meeting the other ranks");
    StoreServer opened =
        number == 0 && worldSize() > 1 ? StoreServer.open(host(), worldSize()) : null;
    synchronized (lock) {
      store = opened;
    }
    RankFacts mine =
        new RankFacts(
            number,
            host(),
            SparkEnv.get().executorId(),
            ProcessHandle.current().pid(),
            device,
            threads,
            rows,
            fingerprint.pack(),
            opened == null ? 0 : opened.address().getPort(),
            opened == null ? null : opened.secret());
    facts = Meeting.hold(mine, context::allGather);
    doing("connecting to the other ranks");
    return join(connect(facts.get(0)));
  }

  private Communicator connect(RankFacts first) {
    if (worldSize() == 1 || first.secret() == null) {
      return new LocalCommunicator();
    }
    return GlooCommunicator.builder(
            new Rendezvous(
                first.host(),
                first.storePort(),
                first.secret(),
                number,
                worldSize(),
                timeoutSeconds))
        .localHost(host())
        .connect();
  }

  private Communicator join(Communicator group) {
    synchronized (lock) {
      communicator = group;
      if (!ended) {
        return group;
      }
    }
    group.abort("the task was killed");
    throw new IllegalStateException("Cannot start training: Spark killed the task.");
  }

  /** How many ranks run on this rank's host, this one included. */
  public int ranksOnHost() {
    int count = 0;
    for (String host : hosts) {
      count += host.equals(host()) ? 1 : 0;
    }
    return count;
  }

  /** Whether Spark has killed the task. */
  boolean isKilled() {
    return killed.getCount() == 0;
  }

  /** Waits until Spark kills the task, at most {@code seconds}. */
  void awaitKill(int seconds) {
    try {
      boolean unused = killed.await(seconds, TimeUnit.SECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  private void kill(String reason) {
    killed.countDown();
    abort("Spark killed the task: " + reason);
  }

  /** Ends the group after a failure; may be called from any thread, and more than once. */
  void abort(String reason) {
    Communicator group;
    StoreServer server;
    synchronized (lock) {
      ended = true;
      group = communicator;
      server = store;
      store = null;
    }
    if (group != null) {
      group.abort(reason);
    } else if (server != null) {
      server.abort(reason);
    }
    if (server != null) {
      // The others learn of the abort through the store, so it outlives the group by a moment.
      CompletableFuture.delayedExecutor(STORE_SECONDS, TimeUnit.SECONDS).execute(server::close);
    }
  }

  /** Ends the group after success. */
  void close() {
    Communicator group;
    StoreServer server;
    synchronized (lock) {
      if (ended) {
        return;
      }
      ended = true;
      group = communicator;
      server = store;
    }
    if (group != null) {
      group.close();
    }
    if (server != null) {
      server.close();
    }
  }
}
