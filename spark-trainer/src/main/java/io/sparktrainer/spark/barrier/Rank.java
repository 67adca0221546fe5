package io.sparktrainer.spark.barrier;

import io.sparktrainer.comm.CollectiveException;
import io.sparktrainer.comm.Communicator;
import io.sparktrainer.comm.DeviceCommunicator;
import io.sparktrainer.comm.GlooCommunicator;
import io.sparktrainer.comm.NcclId;
import io.sparktrainer.comm.NcclLibrary;
import io.sparktrainer.comm.NcclRendezvous;
import io.sparktrainer.comm.Rendezvous;
import io.sparktrainer.comm.StoreServer;
import io.sparktrainer.spark.resource.Gpu;
import io.sparktrainer.spark.resource.RankGpus;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.NativeLibraryException;
import io.sparktrainer.torch.Threads;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.spark.BarrierTaskContext;
import org.apache.spark.BarrierTaskInfo;
import org.apache.spark.SparkEnv;
import org.apache.spark.resource.ResourceInformation;
import org.apache.spark.util.TaskInterruptListener;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One rank inside its barrier task: who it is, and its communicator once the ranks have met.
 *
 * <p>When Spark kills the task, for whatever reason, the communicator is aborted at once, so that a
 * rank that waits for a peer inside native code gives its slot back.
 */
public final class Rank {
  private static final Logger LOG = LoggerFactory.getLogger(Rank.class);
  private static final int STORE_SECONDS = 5;

  private final BarrierTaskContext context;
  private final int number;
  private final String[] hosts;
  private final StageOptions options;
  private final int threads;
  private final CountDownLatch killed = new CountDownLatch(1);
  private final Object lock = new Object();
  private boolean ended;
  private @Nullable StoreServer store;
  private @Nullable Communicator communicator;
  private List<RankFacts> facts = List.of();
  private volatile String doing = "starting";
  private volatile String device;
  private @Nullable RankGpus found;
  private DeviceAgreement agreement = new DeviceAgreement(Device.Type.CPU, null);

  private Rank(BarrierTaskContext context, Placement placement, StageOptions options) {
    this.context = context;
    // The task's own number would change when a stage is run again; the partition's does not.
    this.number = context.partitionId();
    this.options = options;
    this.device = options.device().toString();
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

  /** What the rank computes on; before {@link #meet}, what it was asked to. */
  public String device() {
    return device;
  }

  /** The GPUs that the rank computes on, once the ranks have met; none on the processor. */
  public List<Gpu> gpus() {
    return agreement.type() == Device.Type.CUDA ? facts.get(number).gpus().gpus() : List.of();
  }

  /** Why all ranks compute on the processor although some have GPUs; else null. */
  public @Nullable String deviceLack() {
    return agreement.lack();
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
   * Meets the other ranks: one round through the driver in which all learn where rank 0's store is,
   * what all compute on, and that all have the same model and options, then the connection between
   * them. All ranks call it once.
   *
   * @param rows rows that this rank trains on
   * @return the group of all ranks; this object closes it
   * @throws IllegalStateException on every rank if their fingerprints differ, a rank lacks a GPU
   *     that it has to have, or two have the same one
   */
  public Communicator meet(Fingerprint fingerprint, long rows) {
    RankGpus gpus = lookForGpus();
    String ncclId = null;
    if (worldSize() > 1 && !gpus.gpus().isEmpty()) {
      doing("loading NCCL");
      NcclLibrary.configure(options.nccl());
      if (number == 0) {
        try {
          ncclId = NcclId.create().toText();
        } catch (NativeLibraryException | CollectiveException e) {
          gpus = RankGpus.none(String.valueOf(e.getMessage()));
        }
      }
    }
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
            gpus,
            threads,
            rows,
            fingerprint.pack(),
            opened == null ? 0 : opened.address().getPort(),
            opened == null ? null : opened.secret(),
            ncclId);
    List<RankFacts> met = Meeting.hold(mine, context::allGather);
    agreement = DeviceAgreement.of(options.device(), met);
    facts = met.stream().map(agreement::applyTo).toList();
    device = facts.get(number).device();
    doing("connecting to the other ranks");
    return join(connect(facts.get(0)));
  }

  /**
   * Looks for GPUs, if that has not been done, and says whether there are any that the rank could
   * use. Whether it does, the ranks decide when they meet.
   */
  public boolean mayHaveGpus() {
    return !lookForGpus().gpus().isEmpty();
  }

  private RankGpus lookForGpus() {
    RankGpus known = found;
    if (known == null) {
      known = findGpus();
      found = known;
    }
    return known;
  }

  private RankGpus findGpus() {
    if (!options.device().wantsGpus()) {
      return RankGpus.none("the ranks compute on the processor");
    }
    doing("looking for GPUs");
    List<String> addresses = gpuAddresses();
    RankGpus chosen =
        RankGpus.choose(
            options.device(),
            options.finder().find(),
            addresses,
            System.getenv("CUDA_VISIBLE_DEVICES"),
            ranksBeforeOnHost());
    if (addresses.isEmpty() && !chosen.gpus().isEmpty()) {
      LOG.info(
          "Rank {} takes {} by its place on host {}, for Spark gave its task no GPU.",
          number,
          chosen.gpus(),
          host());
    }
    return chosen;
  }

  /** Addresses of the GPUs that Spark gave this task. */
  private List<String> gpuAddresses() {
    scala.Option<ResourceInformation> gpu = context.resources().get("gpu");
    return gpu.isDefined() ? List.of(gpu.get().addresses()) : List.of();
  }

  private Communicator connect(RankFacts first) {
    if (worldSize() == 1 || first.secret() == null) {
      return DeviceCommunicator.alone(gpus().isEmpty() ? Device.CPU : gpus().get(0).device());
    }
    Rendezvous rendezvous =
        new Rendezvous(
            first.host(),
            first.storePort(),
            first.secret(),
            number,
            worldSize(),
            options.timeoutSeconds());
    return gpus().isEmpty() ? gloo(rendezvous) : connectGpus(first.ncclId(), rendezvous);
  }

  private Communicator gloo(Rendezvous rendezvous) {
    return GlooCommunicator.builder(rendezvous).localHost(host()).connect();
  }

  private Communicator connectGpus(@Nullable String id, Rendezvous rendezvous) {
    if (id == null) {
      throw new IllegalStateException("Cannot connect GPUs: rank 0 has sent no id of NCCL.");
    }
    Device memory = gpus().get(0).device();
    if (!memory.isCuda()) {
      // What stands in for a GPU has no memory but the host's.
      return NcclRendezvous.connect(NcclId.parse(id), rendezvous, memory);
    }
    // Joined before NCCL is, so that a rank that is killed meanwhile can say so to the others.
    Communicator onHost = join(gloo(rendezvous));
    return new DeviceCommunicator(
        onHost, NcclRendezvous.connect(NcclId.parse(id), rendezvous, memory));
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

  private int ranksBeforeOnHost() {
    int count = 0;
    for (int i = 0; i < number; i++) {
      count += hosts[i].equals(host()) ? 1 : 0;
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
