package io.sparktrainer.comm;

import java.io.IOException;
import java.net.DatagramSocket;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * What one rank's groups share: the connection to the store, the address peers reach this rank at,
 * and the signal of an abort.
 *
 * <p>Gloo cannot end a collective that waits: libtorch's {@code abort} and {@code shutdown} do
 * nothing for it. So whoever waits looks at the signal, which the store raises on every rank, and
 * the native calls that were under way go on in the background until their time-out.
 */
final class GlooSession {
  final Rendezvous rendezvous;
  final String localHost;
  final AbortSignal abort;
  private final StoreClient store;
  private final List<GlooGroup> groups = new ArrayList<>();
  private boolean closed;

  private GlooSession(
      Rendezvous rendezvous, String localHost, AbortSignal abort, StoreClient store) {
    this.rendezvous = rendezvous;
    this.localHost = localHost;
    this.abort = abort;
    this.store = store;
  }

  /**
   * Connects to the store.
   *
   * @param localHost null for the address this machine uses towards rank 0
   */
  static GlooSession connect(Rendezvous rendezvous, @Nullable String localHost) {
    String address = localHost == null ? routeTo(rendezvous) : localHost;
    AbortSignal abort = new AbortSignal();
    return new GlooSession(rendezvous, address, abort, StoreClient.connect(rendezvous, abort));
  }

  /** Connecting a datagram socket asks for the route and sends nothing. */
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

  /** Opens a group of {@code size} ranks that all name the same prefix. */
  GlooGroup open(String prefix, int rank, int size) {
    GlooGroup group = GlooGroup.connect(this, store, prefix, rank, size);
    synchronized (this) {
      groups.add(group);
    }
    return group;
  }

  /** Raises the abort here and, through the store, on every other rank. */
  void abort(String reason) {
    String message =
        "rank %d of %d: %s".formatted(rendezvous.rank(), rendezvous.worldSize(), reason);
    if (abort.raise(message)) {
      store.abort(message);
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
   * Gives back everything the rank holds. After an abort native calls may still be under way, and
   * what they use is closed in the background once they have ended.
   */
  void closeAll() {
    List<GlooGroup> rest;
    synchronized (this) {
      if (closed) {
        return;
      }
      closed = true;
      rest = List.copyOf(groups);
      groups.clear();
    }
    if (abort.reason() == null) {
      rest.forEach(GlooGroup::close);
    } else {
      Thread closer =
          new Thread(
              () -> rest.forEach(GlooGroup::close), "spark-trainer close of aborted Gloo groups");
      closer.setDaemon(true);
      closer.start();
    }
    store.close();
  }
}
