package io.sparktrainer.comm;

import io.sparktrainer.torch.NativeScope;
import java.io.IOException;
import java.net.ConnectException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.net.UnknownHostException;
import java.util.concurrent.TimeUnit;
import org.bytedeco.javacpp.chrono.Milliseconds;
import org.bytedeco.pytorch.PrefixStore;
import org.bytedeco.pytorch.StringVector;
import org.bytedeco.pytorch.TCPStore;
import org.bytedeco.pytorch.TCPStoreOptions;

/**
 * One connection to rank 0's key-value store, under the run's secret. A call blocks other calls on
 * the same connection, so a thread that waits for a key has a connection of its own.
 */
final class StoreClient implements AutoCloseable {
  private static final long RETRY_MILLISECONDS = 50;

  // A prefix store does not count as an owner of the store below it: both handles are kept, and
  // closed from the top.
  private final TCPStore connection;
  private final PrefixStore store;

  private StoreClient(TCPStore connection, PrefixStore store) {
    this.connection = connection;
    this.store = store;
  }

  /**
   * Connects, waiting for a store that is not up yet.
   *
   * @throws CollectiveException if the store does not answer within the rendezvous's time-out
   */
  static StoreClient connect(Rendezvous rendezvous, AbortSignal abort) {
    long start = System.nanoTime();
    String who = "rank %d of %d".formatted(rendezvous.rank(), rendezvous.worldSize());
    String what =
        "connect to the store of rank 0 at %s:%d".formatted(rendezvous.host(), rendezvous.port());
    long deadline = start + TimeUnit.SECONDS.toNanos(rendezvous.timeoutSeconds());
    probe(rendezvous, what, who, start, deadline);
    int secondsLeft =
        (int) Math.max(1, TimeUnit.NANOSECONDS.toSeconds(deadline - System.nanoTime()));
    return BlockingCall.make(
        what, who, secondsLeft, abort, () -> open(rendezvous, secondsLeft), StoreClient::close);
  }

  /** libtorch's client retries noisily and for twice its time-out; Java's socket does neither. */
  private static void probe(
      Rendezvous rendezvous, String what, String who, long start, long deadline) {
    while (true) {
      long millisecondsLeft = TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime());
      try (Socket socket = new Socket()) {
        InetSocketAddress address = new InetSocketAddress(rendezvous.host(), rendezvous.port());
        if (address.isUnresolved()) {
          throw new UnknownHostException("unknown host " + rendezvous.host());
        }
        socket.connect(address, (int) Math.max(1, Math.min(millisecondsLeft, 60_000)));
        return;
      } catch (IOException e) {
        boolean hopeless =
            !(e instanceof ConnectException) && !(e instanceof SocketTimeoutException);
        if (hopeless || millisecondsLeft <= RETRY_MILLISECONDS) {
          throw new CollectiveException(
              "Cannot %s (%s, after %s): %s. Check that rank 0 has started and that its address can be reached from here."
                  .formatted(
                      what, who, NativeErrors.secondsSince(start), NativeErrors.firstLine(e)),
              e);
        }
      }
      try {
        Thread.sleep(RETRY_MILLISECONDS);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw new CollectiveException(
            "Cannot %s (%s): the thread was interrupted.".formatted(what, who), e);
      }
    }
  }

  private static StoreClient open(Rendezvous rendezvous, int timeoutSeconds) {
    try (var scope = NativeScope.open()) {
      TCPStoreOptions options =
          new TCPStoreOptions()
              .port((short) rendezvous.port())
              .isServer(false)
              .waitWorkers(false)
              .timeout(new Milliseconds(timeoutSeconds * 1000L));
      TCPStore connection = NativeScope.keep(new TCPStore(rendezvous.host(), options));
      PrefixStore store = NativeScope.keep(new PrefixStore(rendezvous.secret(), connection));
      return new StoreClient(connection, store);
    }
  }

  /**
   * A view of the same connection with {@code prefix} before every key; the caller closes it before
   * this client.
   */
  PrefixStore under(String prefix) {
    try (var scope = NativeScope.open()) {
      return NativeScope.keep(new PrefixStore(prefix, store));
    }
  }

  void set(String key, String value) {
    store.set(key, value);
  }

  /** Waits for {@code key} and returns its value. */
  String await(String key, long timeoutMilliseconds) {
    try (var scope = NativeScope.open()) {
      store._wait(new StringVector(key), new Milliseconds(timeoutMilliseconds));
      return store.get_to_str(key);
    }
  }

  /** Gives back the connection. No other call may be under way. */
  @Override
  public void close() {
    store.close();
    connection.close();
  }
}
