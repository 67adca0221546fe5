package io.sparktrainer.comm;

import io.sparktrainer.torch.NativeScope;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.bytedeco.pytorch.ByteVector;
import org.bytedeco.pytorch.FileStore;
import org.bytedeco.pytorch.Store;
import org.bytedeco.pytorch.StringVector;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Carries Gloo's addresses between ranks. Gloo reads and writes them in a native store, of which
 * libtorch has one over TCP (not used, see {@link StoreProtocol}) and one in a file: each rank gets
 * a private file, out of which its own address is copied into the run's store, and into which the
 * peers' are copied.
 */
final class GlooRendezvous implements AutoCloseable {
  // Gloo names its keys by the number of its context, of which there is one, and the rank.
  private static final String KEY = "0/";
  // Not counted: the file is ours to delete.
  private static final int WORKERS = -1;

  private static final Logger LOG = LoggerFactory.getLogger(GlooRendezvous.class);

  private final Path file;
  // Gloo's end and ours of the same file: a call on one object blocks other calls on it.
  private final Store nativeEnd;
  private final FileStore ourEnd;
  private final AtomicInteger users = new AtomicInteger(2);

  GlooRendezvous() {
    try {
      file = Files.createTempFile("spark-trainer-gloo-", ".store");
    } catch (IOException e) {
      throw new UncheckedIOException(
          "Cannot make a temporary file for Gloo's addresses in "
              + System.getProperty("java.io.tmpdir"),
          e);
    }
    try (var scope = NativeScope.open()) {
      ourEnd = NativeScope.keep(new FileStore(file.toString(), WORKERS));
      // A store made by `new` has no native owner yet: the native object it is handed to takes it,
      // and the Java side frees it again. A clone is owned by count, and can be shared.
      nativeEnd = NativeScope.keep(ourEnd.clone());
    }
  }

  /** The store to hand to Gloo. */
  Store nativeStore() {
    return nativeEnd;
  }

  /**
   * Exchanges addresses through {@code client}, under {@code prefix}, while {@code connecting}
   * runs; returns early if that ends.
   */
  void exchange(
      StoreClient client,
      String prefix,
      int rank,
      int size,
      BlockingCall call,
      Future<?> connecting) {
    try (var scope = NativeScope.open()) {
      StringVector ownKey = new StringVector(KEY + rank);
      while (!ourEnd.check(ownKey)) {
        if (connecting.isDone()) {
          return;
        }
        call.pause();
      }
      client.set(prefix + "/" + rank, ourEnd.get(KEY + rank).get());
      for (int peer = 0; peer < size; peer++) {
        if (peer != rank) {
          byte[] address = call.await(client.get(prefix + "/" + peer));
          ourEnd.set(KEY + peer, new ByteVector(address));
        }
      }
    }
  }

  /** Called by each of the two users: who exchanges, and who connects and then keeps the group. */
  @Override
  public void close() {
    if (users.decrementAndGet() > 0) {
      return;
    }
    nativeEnd.close();
    ourEnd.close();
    try {
      Files.deleteIfExists(file);
    } catch (IOException e) {
      LOG.debug("Could not delete {}: {}", file, e.toString());
    }
  }
}
