package io.sparktrainer.spark.metrics;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.SecureRandom;
import java.util.HexFormat;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The driver's listener for the ranks' figures: one connection per rank, the token as first line,
 * then one JSON record a line.
 *
 * <p>Figures are a convenience: a firewall between executors and driver does not stop a training,
 * whose epochs also come back with rank 0's result.
 */
public final class MetricsServer implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(MetricsServer.class);
  private static final int GREETING_MILLIS = 10_000;
  private static final int CLOSE_MILLIS = 5_000;
  private static final int POLL_MILLIS = 50;

  private final ServerSocket listener;
  private final MetricsAddress address;
  private final StartFirst sink;
  private final Set<Socket> connections = ConcurrentHashMap.newKeySet();
  private final Set<Thread> readers = ConcurrentHashMap.newKeySet();
  private final Object sinkLock = new Object();
  private final Thread acceptor = daemon("metrics-listener", this::acceptAll);
  private volatile boolean closing;

  private MetricsServer(ServerSocket listener, MetricsAddress address, MetricSink sink) {
    this.listener = listener;
    this.address = address;
    this.sink = new StartFirst(sink);
  }

  /**
   * Starts listening.
   *
   * @param bindHost address to listen on
   * @param host address under which the ranks reach it
   * @param port port to listen on, 0 for any free one
   * @throws IOException if the address cannot be bound
   */
  public static MetricsServer start(String bindHost, String host, int port, MetricSink sink)
      throws IOException {
    ServerSocket listener = new ServerSocket();
    try {
      listener.bind(new InetSocketAddress(InetAddress.getByName(bindHost), port));
    } catch (IOException e) {
      listener.close();
      throw e;
    }
    byte[] token = new byte[16];
    new SecureRandom().nextBytes(token);
    MetricsServer server =
        new MetricsServer(
            listener,
            new MetricsAddress(host, listener.getLocalPort(), HexFormat.of().formatHex(token)),
            sink);
    listener.setSoTimeout(POLL_MILLIS);
    server.acceptor.start();
    return server;
  }

  /** What the ranks need to reach it. */
  public MetricsAddress address() {
    return address;
  }

  /** Until closing, and then until no connection is waiting to be accepted. */
  private void acceptAll() {
    boolean more = true;
    while (more) {
      boolean last = closing;
      try {
        Socket connection = listener.accept();
        connections.add(connection);
        Thread reader = daemon("metrics-reader", () -> read(connection));
        readers.add(reader);
        reader.start();
      } catch (SocketTimeoutException e) {
        more = !last;
      } catch (IOException e) {
        more = !listener.isClosed();
        if (more) {
          LOG.warn("Cannot accept metrics: {}", e.toString());
        }
      }
    }
  }

  private void read(Socket connection) {
    try (connection;
        BufferedReader lines =
            new BufferedReader(
                new InputStreamReader(connection.getInputStream(), StandardCharsets.UTF_8))) {
      connection.setSoTimeout(GREETING_MILLIS);
      if (!isToken(lines.readLine())) {
        return;
      }
      connection.setSoTimeout(0);
      String line;
      while ((line = lines.readLine()) != null) {
        MetricRecord record = MetricRecord.parse(line);
        synchronized (sinkLock) {
          sink.accept(record);
        }
      }
    } catch (IOException | RuntimeException e) {
      LOG.debug("A rank's metrics ended early: {}", e.toString());
    } finally {
      connections.remove(connection);
      readers.remove(Thread.currentThread());
    }
  }

  private boolean isToken(@org.jspecify.annotations.Nullable String line) {
    return line != null
        && MessageDigest.isEqual(
            line.getBytes(StandardCharsets.UTF_8),
            address.token().getBytes(StandardCharsets.UTF_8));
  }

  private static Thread daemon(String name, Runnable body) {
    Thread thread = new Thread(body, name);
    thread.setDaemon(true);
    return thread;
  }

  /** Stops listening, after the records that ranks have sent already have been read. */
  @Override
  public void close() throws IOException {
    closing = true;
    try {
      acceptor.join(CLOSE_MILLIS);
      listener.close();
      // Ranks have closed their ends by now, so readers end by themselves.
      for (Thread reader : readers) {
        reader.join(CLOSE_MILLIS);
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    synchronized (sinkLock) {
      sink.release();
    }
    for (Socket connection : connections) {
      connection.close();
    }
  }
}
