package io.sparktrainer.comm;

import io.sparktrainer.torch.NativeLibraries;
import io.sparktrainer.torch.NativeScope;
import java.net.InetSocketAddress;
import java.security.SecureRandom;
import java.util.HexFormat;
import org.bytedeco.javacpp.chrono.Milliseconds;
import org.bytedeco.pytorch.PrefixStore;
import org.bytedeco.pytorch.TCPStore;
import org.bytedeco.pytorch.TCPStoreOptions;

/**
 * The key-value store through which the ranks of one run find each other: libtorch's {@code
 * TCPStore} on a random port, every key under a secret of this run. Rank 0, or whoever starts the
 * ranks, opens it before they connect and closes it after they have closed.
 *
 * <p>The store listens on all of the machine's addresses; {@link #address()} is the one handed to
 * the ranks.
 */
public final class StoreServer implements AutoCloseable {
  private static final int SECRET_BYTES = 16;
  private static final int SERVER_TIMEOUT_SECONDS = 30;

  private final TCPStore store;
  private final String host;
  private final int port;
  private final String secret;
  private final int worldSize;
  private boolean closed;

  private StoreServer(TCPStore store, String host, int worldSize) {
    byte[] random = new byte[SECRET_BYTES];
    new SecureRandom().nextBytes(random);
    this.store = store;
    this.host = host;
    this.port = Short.toUnsignedInt(store.getPort());
    this.secret = HexFormat.of().formatHex(random);
    this.worldSize = worldSize;
  }

  /**
   * Starts a store on this machine.
   *
   * @param host an address of this machine that every rank can reach
   * @param worldSize number of ranks of the run
   * @throws CollectiveException if no port can be opened
   */
  public static StoreServer open(String host, int worldSize) {
    NativeLibraries.load();
    try (var scope = NativeScope.open()) {
      TCPStoreOptions options =
          new TCPStoreOptions()
              .port((short) 0)
              .isServer(true)
              .waitWorkers(false)
              .timeout(new Milliseconds(SERVER_TIMEOUT_SECONDS * 1000L));
      // The server's own client connects by this name; the loopback address always leads here.
      return new StoreServer(NativeScope.keep(new TCPStore("127.0.0.1", options)), host, worldSize);
    } catch (RuntimeException e) {
      throw new CollectiveException(
          "Cannot open the store of rank 0: " + NativeErrors.firstLine(e) + ".", e);
    }
  }

  /** Host as given, and the port. */
  public InetSocketAddress address() {
    return InetSocketAddress.createUnresolved(host, port);
  }

  /** Prefix of the run's keys; for the run's ranks only. */
  public String secret() {
    return secret;
  }

  /** What rank {@code rank} needs to join. */
  public Rendezvous rendezvous(int rank, int timeoutSeconds) {
    return new Rendezvous(host, port, secret, rank, worldSize, timeoutSeconds);
  }

  /**
   * Ends the run on every rank, also on ranks that are still waiting for their peers to connect:
   * what they wait in throws {@link CollectiveException} with {@code reason}.
   */
  public synchronized void abort(String reason) {
    if (closed) {
      return;
    }
    try (var scope = NativeScope.open()) {
      PrefixStore keys = new PrefixStore(secret, store);
      for (int rank = 0; rank < worldSize; rank++) {
        keys.set(
            GlooSession.watchKey(rank), GlooSession.ABORTED + "the owner of the store: " + reason);
      }
    }
  }

  @Override
  public synchronized void close() {
    if (!closed) {
      closed = true;
      store.close();
    }
  }

  @Override
  public String toString() {
    return "store at " + host + ":" + port;
  }
}
