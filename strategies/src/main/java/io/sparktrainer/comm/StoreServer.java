package io.sparktrainer.comm;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The key-value store through which the ranks of one run find each other, and through which a
 * failure of one reaches all: it listens on a random port and serves only who knows the run's
 * secret. Rank 0, or whoever starts the ranks, opens it before they connect and closes it after
 * they have closed.
 */
public final class StoreServer implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(StoreServer.class);
  private static final int SECRET_BYTES = 16;

  private final ServerSocket listener;
  private final String host;
  private final String secret;
  private final int worldSize;
  private final Map<String, byte[]> values = new HashMap<>();
  private final List<Waiting> waiting = new ArrayList<>();
  private final List<StoreConnection> connections = new ArrayList<>();
  private @Nullable String abortReason;
  private boolean closed;

  private record Waiting(StoreConnection connection, long request, String key) {}

  private StoreServer(ServerSocket listener, String host, int worldSize) {
    byte[] random = new byte[SECRET_BYTES];
    new SecureRandom().nextBytes(random);
    this.listener = listener;
    this.host = host;
    this.secret = HexFormat.of().formatHex(random);
    this.worldSize = worldSize;
  }

  /**
   * Starts a store on this machine.
   *
   * @param host an address of this machine that every rank can reach; the store listens there, or,
   *     where it is only known to others (behind a translated address), on all addresses
   * @param worldSize number of ranks of the run
   * @throws CollectiveException if no port can be opened
   */
  public static StoreServer open(String host, int worldSize) {
    if (worldSize < 1) {
      throw new IllegalArgumentException(
          "Cannot open a store: expected at least 1 rank, got " + worldSize + ".");
    }
    try {
      StoreServer server = new StoreServer(listen(host, worldSize), host, worldSize);
      server.start();
      return server;
    } catch (IOException e) {
      throw new CollectiveException(
          "Cannot open the store of rank 0 at %s: %s. Give an address of this machine."
              .formatted(host, e),
          e);
    }
  }

  private static ServerSocket listen(String host, int worldSize) throws IOException {
    int backlog = Math.max(64, worldSize);
    try {
      return new ServerSocket(0, backlog, InetAddress.getByName(host));
    } catch (java.net.BindException e) {
      return new ServerSocket(0, backlog);
    }
  }

  private void start() {
    Thread acceptor = new Thread(this::accept, "spark-trainer store");
    acceptor.setDaemon(true);
    acceptor.start();
  }

  private void accept() {
    while (true) {
      try {
        Socket socket = listener.accept();
        StoreConnection connection = new StoreConnection(this, socket);
        Thread reader = new Thread(connection::serve, "spark-trainer store connection");
        reader.setDaemon(true);
        reader.start();
      } catch (IOException e) {
        synchronized (this) {
          if (!closed) {
            LOG.warn("The store at {} stopped accepting ranks: {}", this, e.toString());
          }
        }
        return;
      }
    }
  }

  /** Host as given, and the port. */
  public InetSocketAddress address() {
    return InetSocketAddress.createUnresolved(host, listener.getLocalPort());
  }

  /** What a rank has to know to be served; for the run's ranks only. */
  public String secret() {
    return secret;
  }

  /** What rank {@code rank} needs to join. */
  public Rendezvous rendezvous(int rank, int timeoutSeconds) {
    return new Rendezvous(host, listener.getLocalPort(), secret, rank, worldSize, timeoutSeconds);
  }

  /**
   * Ends the run on every rank, also on ranks that are still waiting for their peers to connect:
   * what they wait in throws {@link CollectiveException} with {@code reason}.
   */
  public void abort(String reason) {
    spreadAbort("the owner of the store: " + reason);
  }

  /** Adds a rank that has shown the secret; false if the store is closed. */
  synchronized boolean join(StoreConnection connection) {
    if (closed) {
      return false;
    }
    connections.add(connection);
    if (abortReason != null) {
      connection.sendAbort(abortReason);
    }
    return true;
  }

  synchronized void set(String key, byte[] value) {
    values.put(key, value);
    for (Waiting each : List.copyOf(waiting)) {
      if (each.key.equals(key)) {
        waiting.remove(each);
        each.connection.sendValue(each.request, value);
      }
    }
  }

  synchronized void get(StoreConnection connection, long request, String key) {
    byte[] value = values.get(key);
    if (value == null) {
      waiting.add(new Waiting(connection, request, key));
    } else {
      connection.sendValue(request, value);
    }
  }

  /** Remembers the first reason and tells every rank, now or when it joins. */
  synchronized void spreadAbort(String reason) {
    if (abortReason == null && !closed) {
      abortReason = reason;
      connections.forEach(connection -> connection.sendAbort(reason));
    }
  }

  synchronized void leave(StoreConnection connection) {
    connections.remove(connection);
    waiting.removeIf(each -> each.connection == connection);
  }

  boolean hasSecret(String shown) {
    return java.security.MessageDigest.isEqual(
        secret.getBytes(java.nio.charset.StandardCharsets.UTF_8),
        shown.getBytes(java.nio.charset.StandardCharsets.UTF_8));
  }

  int worldSize() {
    return worldSize;
  }

  @Override
  public void close() {
    List<StoreConnection> open;
    synchronized (this) {
      if (closed) {
        return;
      }
      closed = true;
      open = List.copyOf(connections);
      connections.clear();
    }
    try {
      listener.close();
    } catch (IOException e) {
      LOG.debug("Could not close the store's port: {}", e.toString());
    }
    open.forEach(StoreConnection::sayBye);
  }

  @Override
  public String toString() {
    return "store at " + host + ":" + listener.getLocalPort();
  }
}
