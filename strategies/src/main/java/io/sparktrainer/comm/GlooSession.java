package io.sparktrainer.comm;

import java.io.IOException;
import java.net.DatagramSocket;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What one rank's groups share: the connection to the store, the address peers reach this rank at,
 * and the watch for an abort.
 *
 * <p>Gloo cannot end a collective that waits: libtorch's {@code abort} and {@code shutdown} do
 * nothing for it. So every rank has a thread that waits in the store for the key {@code
 * watch/rank}, and whoever aborts writes all of them. The native calls that were under way go on in
 * the background until their time-out.
 */
final class GlooSession {
  static final String ABORTED = "aborted:";
  private static final String CLOSED = "closed:";
  private static final Logger LOG = LoggerFactory.getLogger(GlooSession.class);
  // The native poll takes milliseconds as an int.
  private static final long WATCH_MILLISECONDS = TimeUnit.DAYS.toMillis(7);
  private static final int ABORT_SECONDS = 5;

  final Rendezvous rendezvous;
  final String localHost;
  final AbortSignal abort = new AbortSignal();
  private final List<GlooGroup> groups = new ArrayList<>();
  private @Nullable StoreClient store;
  private @Nullable Thread watcher;
  private int connecting;

  private GlooSession(Rendezvous rendezvous, String localHost) {
    this.rendezvous = rendezvous;
    this.localHost = localHost;
  }

  static GlooSession connect(Rendezvous rendezvous, @Nullable String localHost) {
    String address = localHost == null ? routeTo(rendezvous) : localHost;
    GlooSession session = new GlooSession(rendezvous, address);
    session.store = StoreClient.connect(rendezvous, session.abort);
    session.watcher = session.startWatcher();
    return session;
  }

  static String watchKey(int rank) {
    return "watch/" + rank;
  }

  /** The address this machine uses towards rank 0; nothing is sent. */
  private static String routeTo(Rendezvous rendezvous) {
    try (DatagramSocket socket = new DatagramSocket()) {
      socket.connect(new InetSocketAddress(rendezvous.host(), rendezvous.port()));
      return socket.getLocalAddress().getHostAddress();
    } catch (IOException | RuntimeException e) {
      throw new CollectiveException(
          "Cannot find this machine's address towards rank 0 at %s:%d (rank %d of %d): %s. Give this rank's own address."
              .formatted(
                  rendezvous.host(),
                  rendezvous.port(),
                  rendezvous.rank(),
                  rendezvous.worldSize(),
                  NativeErrors.firstLine(e)),
          e);
    }
  }

  private Thread startWatcher() {
    StoreClient own = StoreClient.connect(rendezvous, abort);
    Thread thread =
        new Thread(() -> watch(own), "spark-trainer abort watch of rank " + rendezvous.rank());
    thread.setDaemon(true);
    thread.start();
    return thread;
  }

  private void watch(StoreClient own) {
    try (own) {
      String value = own.await(watchKey(rendezvous.rank()), WATCH_MILLISECONDS);
      if (value.startsWith(ABORTED)) {
        abort.raise(value.substring(ABORTED.length()));
      }
    } catch (RuntimeException e) {
      // Rank 0 closes its store when it is through, and others may still finish their last
      // collective; a rank 0 that has died shows in Gloo's own connections.
      LOG.debug("The store of rank 0 is gone: {}", NativeErrors.firstLine(e));
    }
  }

  /** Opens a group of {@code size} ranks that all name the same prefix. */
  GlooGroup open(String prefix, int rank, int size) {
    beginConnecting();
    int timeoutSeconds = rendezvous.timeoutSeconds();
    return BlockingCall.make(
        "connect the ranks of group '" + prefix + "' through " + localHost,
        "rank %d of %d".formatted(rank, size),
        // The native time-out holds for each peer, and gives the better message.
        timeoutSeconds + 1,
        abort,
        () -> {
          try {
            // libtorch ends the process when a store is put under a second prefix, so each group
            // has a connection of its own.
            StoreClient client = StoreClient.connect(rendezvous, abort);
            return add(GlooGroup.connect(client, localHost, prefix, rank, size, timeoutSeconds));
          } finally {
            endConnecting();
          }
        },
        this::close);
  }

  private synchronized void beginConnecting() {
    if (store == null) {
      throw new IllegalStateException("Cannot open a group: the session is closed.");
    }
    connecting++;
  }

  private synchronized void endConnecting() {
    connecting--;
    notifyAll();
  }

  private synchronized GlooGroup add(GlooGroup group) {
    groups.add(group);
    return group;
  }

  /** Raises the abort here and, through the store, on every other rank. */
  void abort(String reason) {
    String message =
        "rank %d of %d: ".formatted(rendezvous.rank(), rendezvous.worldSize()) + reason;
    if (!abort.raise(message)) {
      return;
    }
    // The session's own connection may be blocked in a wait, so this takes a new one.
    Rendezvous soon = rendezvous.withTimeout(ABORT_SECONDS);
    try (StoreClient client = StoreClient.connect(soon, new AbortSignal())) {
      for (int rank = 0; rank < rendezvous.worldSize(); rank++) {
        client.set(watchKey(rank), ABORTED + message);
      }
    } catch (RuntimeException e) {
      LOG.warn(
          "Could not tell the other ranks about the abort ({}): {}",
          reason,
          NativeErrors.firstLine(e));
    }
  }

  /** Closes one group; after an abort it is left to {@link #closeAll()}. */
  void close(GlooGroup group) {
    if (abort.reason() == null) {
      synchronized (this) {
        groups.remove(group);
      }
      group.close();
    }
  }

  /**
   * Gives back everything the rank holds. What native calls still use, after an abort or a failed
   * connect, is closed in the background once they have ended.
   */
  void closeAll() {
    boolean busy;
    synchronized (this) {
      busy = connecting > 0;
    }
    if (abort.reason() == null && !busy) {
      closeNow();
    } else {
      Thread closer = new Thread(this::closeNow, "spark-trainer close of a failed Gloo group");
      closer.setDaemon(true);
      closer.start();
    }
  }

  private void closeNow() {
    List<GlooGroup> rest;
    StoreClient client;
    Thread thread;
    try {
      synchronized (this) {
        while (connecting > 0) {
          wait();
        }
        rest = List.copyOf(groups);
        groups.clear();
        client = store;
        thread = watcher;
        store = null;
        watcher = null;
      }
      rest.forEach(GlooGroup::close);
      if (client != null) {
        close(client, thread);
      }
    } catch (InterruptedException e) {
      // What is left stays open; the process is ending.
      Thread.currentThread().interrupt();
    }
  }

  private void close(StoreClient client, @Nullable Thread thread) throws InterruptedException {
    try (client) {
      if (abort.reason() == null) {
        client.set(watchKey(rendezvous.rank()), CLOSED);
      }
      if (thread != null) {
        thread.join(TimeUnit.SECONDS.toMillis(ABORT_SECONDS));
      }
    } catch (RuntimeException e) {
      LOG.debug("The store of rank 0 closed first: {}", NativeErrors.firstLine(e));
    }
  }
}
