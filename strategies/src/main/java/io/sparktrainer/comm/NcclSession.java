package io.sparktrainer.comm;

import io.sparktrainer.torch.Device;
import java.util.ArrayList;
import java.util.List;
import org.bytedeco.cuda.global.nccl;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What one rank's NCCL groups share: their device, the signal of an abort, and a thread that
 * watches them. NCCL's collectives run on the device, so that the rank may be anywhere, also inside
 * libtorch waiting for the device, when one of them is lost; the watch then aborts all groups,
 * which sets the device free.
 */
final class NcclSession {
  private static final Logger LOG = LoggerFactory.getLogger(NcclSession.class);
  private static final long WATCH_MILLISECONDS = 100;

  final int rank;
  final int worldSize;
  final Device device;
  final int timeoutSeconds;
  final AbortSignal abort;
  private final @Nullable StoreClient store;
  private final List<NcclGroup> groups = new ArrayList<>();
  private final List<NcclCommunicator> watched = new ArrayList<>();
  private boolean closed;

  private NcclSession(
      int rank,
      int worldSize,
      Device device,
      int timeoutSeconds,
      AbortSignal abort,
      @Nullable StoreClient store) {
    this.rank = rank;
    this.worldSize = worldSize;
    this.device = device;
    this.timeoutSeconds = timeoutSeconds;
    this.abort = abort;
    this.store = store;
  }

  /** Without a store, an abort stays on this rank, and others meet it as a lost peer. */
  static NcclSession alone(int rank, int worldSize, Device device, int timeoutSeconds) {
    return started(
        new NcclSession(rank, worldSize, device, timeoutSeconds, new AbortSignal(), null));
  }

  /** Connects to the run's store, which passes an abort or the loss of a rank on to all. */
  static NcclSession connect(Rendezvous rendezvous, Device device) {
    AbortSignal abort = new AbortSignal();
    StoreClient store = StoreClient.connect(rendezvous, abort);
    return started(
        new NcclSession(
            rendezvous.rank(),
            rendezvous.worldSize(),
            device,
            rendezvous.timeoutSeconds(),
            abort,
            store));
  }

  private static NcclSession started(NcclSession session) {
    Thread watch = new Thread(session::watch, "spark-trainer NCCL watch");
    watch.setDaemon(true);
    watch.start();
    return session;
  }

  private void watch() {
    while (abort.await(WATCH_MILLISECONDS) == null) {
      List<NcclCommunicator> now;
      synchronized (this) {
        if (closed) {
          return;
        }
        now = List.copyOf(watched);
      }
      now.forEach(this::look);
    }
    abortGroups();
  }

  private void look(NcclCommunicator communicator) {
    try {
      communicator.look();
    } catch (RuntimeException e) {
      abort(String.valueOf(e.getMessage()));
    }
  }

  /** Joins the group of all ranks, and waits for it. */
  NcclGroup open(NcclId id) {
    BlockingCall call = blockingCall("connect the NCCL group on " + device, rank, worldSize);
    NcclGroup group = added(NcclGroup.open(id, rank, worldSize, device));
    awaitState(group, call, "connect");
    return group;
  }

  /** Splits {@code parent}, and waits for the part that this rank is in, if it is in one. */
  @Nullable NcclGroup split(
      NcclGroup parent, String name, int color, int rankInGroup, int size, boolean member) {
    BlockingCall call = blockingCall("split off NCCL group '" + name + "'", rankInGroup, size);
    NcclGroup child = parent.split(color, rankInGroup, device);
    awaitState(parent, call, "split");
    if (!member || !child.isSplitOff()) {
      child.closeStream();
      return null;
    }
    awaitState(added(child), call, "connect");
    return child;
  }

  private BlockingCall blockingCall(String what, int place, int size) {
    return new BlockingCall(what, "rank %d of %d".formatted(place, size), timeoutSeconds, abort);
  }

  private void awaitState(NcclGroup group, BlockingCall call, String verb) {
    try {
      int state = group.state();
      while (state == nccl.ncclInProgress) {
        call.pause();
        state = group.state();
      }
      if (NcclGroup.isError(state)) {
        throw new CollectiveException(
            "Cannot %s the NCCL group on %s (rank %d of %d): %s."
                .formatted(verb, device, rank, worldSize, NcclLibrary.describe(state)),
            null);
      }
    } catch (CollectiveException e) {
      abort(String.valueOf(e.getMessage()));
      throw e;
    }
  }

  private synchronized NcclGroup added(NcclGroup group) {
    groups.add(group);
    return group;
  }

  synchronized void watch(NcclCommunicator communicator) {
    watched.add(communicator);
  }

  /** Raises the abort here and, through the store, on every other rank; frees the device. */
  void abort(String reason) {
    String message = "rank %d of %d: %s".formatted(rank, worldSize, reason);
    boolean first = abort.raise(message);
    abortGroups();
    if (first && store != null) {
      store.abort(message);
    }
  }

  private void abortGroups() {
    List<NcclGroup> all;
    synchronized (this) {
      all = List.copyOf(groups);
    }
    all.forEach(NcclGroup::abort);
  }

  /** Ends one group in good order, once its collectives are done. */
  void close(NcclCommunicator communicator, NcclGroup group) {
    synchronized (this) {
      watched.remove(communicator);
      groups.remove(group);
    }
    if (communicator.settleAll()) {
      finish(group, communicator);
      group.closeStream();
    } else {
      group.abort();
    }
  }

  private void finish(NcclGroup group, NcclCommunicator communicator) {
    if (abort.reason() == null && !NcclGroup.isError(group.finish())) {
      BlockingCall call =
          blockingCall("close the NCCL group", communicator.rank(), communicator.worldSize());
      try {
        while (group.state() == nccl.ncclInProgress) {
          call.pause();
        }
        group.destroy();
      } catch (CollectiveException e) {
        LOG.warn("{}", e.getMessage());
      }
    }
    group.abort();
  }

  /**
   * Gives back all that the rank holds.
   *
   * @param last closes the group of all ranks, once those split from it are closed
   */
  void closeAll(Runnable last) {
    List<NcclCommunicator> rest;
    synchronized (this) {
      if (closed) {
        return;
      }
      closed = true;
      rest = List.copyOf(watched);
    }
    rest.forEach(NcclCommunicator::close);
    last.run();
    List<NcclGroup> unconnected;
    synchronized (this) {
      unconnected = List.copyOf(groups);
      groups.clear();
    }
    for (NcclGroup group : unconnected) {
      group.abort();
      group.closeStream();
    }
    if (store != null) {
      store.close();
    }
  }
}
