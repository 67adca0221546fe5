package io.sparktrainer.comm;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.ConnectException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.net.UnknownHostException;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One rank's connection to the store. A thread of its own reads it, so that an abort reaches the
 * rank whatever it is doing. Losing the store without its good-bye is an abort, too.
 */
final class StoreClient implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(StoreClient.class);
  private static final long RETRY_MILLISECONDS = 50;
  private static final long ABORT_MILLISECONDS = 2_000;

  private final Rendezvous rendezvous;
  private final AbortSignal abort;
  private final Socket socket;
  private final DataInputStream in;
  private final DataOutputStream out;
  private final AtomicLong requests = new AtomicLong();
  private final Map<Long, CompletableFuture<byte[]>> pending = new ConcurrentHashMap<>();
  private final CountDownLatch aborted = new CountDownLatch(1);
  private volatile boolean closed;

  private StoreClient(Rendezvous rendezvous, AbortSignal abort, Socket socket) throws IOException {
    this.rendezvous = rendezvous;
    this.abort = abort;
    this.socket = socket;
    this.in = new DataInputStream(new BufferedInputStream(socket.getInputStream()));
    this.out = new DataOutputStream(new BufferedOutputStream(socket.getOutputStream()));
  }

  /**
   * Connects, waiting for a store that is not up yet.
   *
   * @param abort raised when a rank aborts or is lost
   * @throws CollectiveException if the store does not answer within the rendezvous's time-out, or
   *     refuses the secret
   */
  static StoreClient connect(Rendezvous rendezvous, AbortSignal abort) {
    long start = System.nanoTime();
    long deadline = start + TimeUnit.SECONDS.toNanos(rendezvous.timeoutSeconds());
    while (true) {
      long millisecondsLeft =
          Math.max(1, TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime()));
      try {
        StoreClient client = attempt(rendezvous, abort, (int) millisecondsLeft);
        client.startReader();
        return client;
      } catch (IOException e) {
        boolean notUpYet = e instanceof ConnectException;
        if (!notUpYet || millisecondsLeft <= RETRY_MILLISECONDS) {
          throw cannotConnect(rendezvous, start, e);
        }
      }
      try {
        Thread.sleep(RETRY_MILLISECONDS);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw cannotConnect(rendezvous, start, e);
      }
    }
  }

  private static StoreClient attempt(Rendezvous rendezvous, AbortSignal abort, int milliseconds)
      throws IOException {
    Socket socket = new Socket();
    try {
      InetSocketAddress address = new InetSocketAddress(rendezvous.host(), rendezvous.port());
      if (address.isUnresolved()) {
        throw new UnknownHostException("unknown host");
      }
      socket.setTcpNoDelay(true);
      socket.connect(address, milliseconds);
      socket.setSoTimeout(milliseconds);
      StoreClient client = new StoreClient(rendezvous, abort, socket);
      client.greet();
      socket.setSoTimeout(0);
      return client;
    } catch (IOException | RuntimeException e) {
      socket.close();
      throw e;
    }
  }

  private void greet() throws IOException {
    out.writeInt(StoreProtocol.MAGIC);
    StoreProtocol.writeText(out, rendezvous.secret());
    out.writeInt(rendezvous.rank());
    out.flush();
    byte answer;
    try {
      answer = in.readByte();
    } catch (SocketTimeoutException e) {
      throw new IOException("something listens there, but does not answer as a store does", e);
    }
    if (answer == StoreProtocol.REFUSED) {
      throw new IOException("the store is another run's: it refused the secret");
    }
    if (answer != StoreProtocol.WELCOME) {
      throw new IOException("what listens there is no store of this library");
    }
  }

  private static CollectiveException cannotConnect(
      Rendezvous rendezvous, long start, Exception cause) {
    return new CollectiveException(
        "Cannot connect to the store of rank 0 at %s:%d (rank %d of %d, after %s): %s. Check that rank 0 has started and that its address can be reached from here."
            .formatted(
                rendezvous.host(),
                rendezvous.port(),
                rendezvous.rank(),
                rendezvous.worldSize(),
                NativeErrors.secondsSince(start),
                cause instanceof InterruptedException
                    ? "the thread was interrupted"
                    : NativeErrors.firstLine(cause)),
        cause);
  }

  private void startReader() {
    Thread reader = new Thread(this::read, "spark-trainer store client");
    reader.setDaemon(true);
    reader.start();
  }

  private void read() {
    try (socket) {
      while (true) {
        switch (in.readByte()) {
          case StoreProtocol.VALUE -> {
            long request = in.readLong();
            byte[] value = StoreProtocol.readBytes(in);
            CompletableFuture<byte[]> future = pending.remove(request);
            if (future != null) {
              future.complete(value);
            }
          }
          case StoreProtocol.ABORT -> {
            abort.raise(StoreProtocol.readText(in));
            aborted.countDown();
          }
          case StoreProtocol.BYE -> {
            return;
          }
          default -> throw new IOException("the store sent what is no frame");
        }
      }
    } catch (IOException e) {
      if (!closed) {
        abort.raise(
            "the loss of the store of rank 0 at %s:%d: %s. See rank 0's log"
                .formatted(rendezvous.host(), rendezvous.port(), e));
      }
    } finally {
      aborted.countDown();
    }
  }

  void set(String key, byte[] value) {
    send(
        frame -> {
          frame.writeByte(StoreProtocol.SET);
          StoreProtocol.writeText(frame, key);
          StoreProtocol.writeBytes(frame, value);
        });
  }

  /** A value that may still have to be set. */
  CompletableFuture<byte[]> get(String key) {
    long request = requests.getAndIncrement();
    CompletableFuture<byte[]> future = new CompletableFuture<>();
    pending.put(request, future);
    send(
        frame -> {
          frame.writeByte(StoreProtocol.GET);
          frame.writeLong(request);
          StoreProtocol.writeText(frame, key);
        });
    return future;
  }

  /** Tells every rank, and waits a little until the store has: it may be closed next. */
  void abort(String reason) {
    send(
        frame -> {
          frame.writeByte(StoreProtocol.ABORT);
          StoreProtocol.writeText(frame, reason);
        });
    try {
      if (!aborted.await(ABORT_MILLISECONDS, TimeUnit.MILLISECONDS)) {
        LOG.warn("The store of rank 0 did not pass on the abort ({}) in time", reason);
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  private interface Frame {
    void write(DataOutputStream frame) throws IOException;
  }

  private synchronized void send(Frame frame) {
    try {
      frame.write(out);
      out.flush();
    } catch (IOException e) {
      // The reader meets the same broken connection and raises the abort.
      LOG.debug("Could not reach the store: {}", e.toString());
    }
  }

  /** Leaves in good order. */
  @Override
  public void close() {
    if (closed) {
      return;
    }
    closed = true;
    send(frame -> frame.writeByte(StoreProtocol.BYE));
    try {
      socket.close();
    } catch (IOException e) {
      LOG.debug("Could not close the connection to the store: {}", e.toString());
    }
  }
}
