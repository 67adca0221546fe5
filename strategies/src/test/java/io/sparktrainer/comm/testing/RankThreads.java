package io.sparktrainer.comm.testing;

import io.sparktrainer.comm.Communicator;
import io.sparktrainer.comm.GlooCommunicator;
import io.sparktrainer.comm.Rendezvous;
import io.sparktrainer.comm.StoreServer;
import io.sparktrainer.torch.NativeLibraries;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * Runs every rank of a group on a thread of its own, with nothing shared but a {@link Rendezvous}.
 * The first rank to fail aborts the others; its exception is what the caller sees.
 */
public final class RankThreads {
  /** Longest time a whole run may take. */
  public static final int RUN_SECONDS = 120;

  /** Longest wait for a peer inside a run. */
  public static final int PEER_SECONDS = 60;

  private static final int LEAVE_SECONDS = 10;

  private RankThreads() {}

  /** What one rank does with its place in the group. */
  @FunctionalInterface
  public interface RankBody {
    void run(Rendezvous rendezvous) throws Exception;
  }

  /** What one rank does with the connected group; the group is closed or aborted for it. */
  @FunctionalInterface
  public interface GroupBody {
    void run(Communicator communicator) throws Exception;
  }

  /** The same with a result. */
  @FunctionalInterface
  public interface GroupFunction<T> {
    T apply(Communicator communicator) throws Exception;
  }

  /** How a rank joins its group. */
  @FunctionalInterface
  public interface Connect {
    Communicator connect(Rendezvous rendezvous);
  }

  /**
   * Runs {@code body} on {@code worldSize} ranks.
   *
   * @throws RankFailure with the first exception of any rank, or after {@link #RUN_SECONDS}
   */
  public static void run(int worldSize, RankBody body) {
    run(worldSize, PEER_SECONDS, body);
  }

  /** The same with {@code timeoutSeconds} in each rank's rendezvous. */
  public static void run(int worldSize, int timeoutSeconds, RankBody body) {
    // Not part of the run's time: it can take long on a busy machine.
    NativeLibraries.load();
    try (StoreServer server = StoreServer.open("127.0.0.1", worldSize)) {
      BlockingQueue<Ended> ended = new LinkedBlockingQueue<>();
      List<Thread> threads = new ArrayList<>();
      for (int rank = 0; rank < worldSize; rank++) {
        Rendezvous rendezvous = server.rendezvous(rank, timeoutSeconds);
        Thread thread = new Thread(() -> ended.add(runRank(rendezvous, body)), "rank " + rank);
        thread.setDaemon(true);
        threads.add(thread);
        thread.start();
      }
      new Run(server, threads, ended).await();
    }
  }

  /** Connects every rank over Gloo and runs {@code body}. */
  public static void runConnected(int worldSize, GroupBody body) {
    runConnected(worldSize, GlooCommunicator::connect, body);
  }

  /** Connects every rank by {@code connect} and runs {@code body}. */
  public static void runConnected(int worldSize, Connect connect, GroupBody body) {
    run(
        worldSize,
        rendezvous -> {
          Communicator communicator = connect.connect(rendezvous);
          try {
            body.run(communicator);
          } catch (Exception | Error e) {
            communicator.abort(String.valueOf(e));
            throw e;
          } finally {
            communicator.close();
          }
        });
  }

  /** Connects every rank over Gloo, runs {@code body}, and returns the results in rank order. */
  public static <T> List<T> collect(int worldSize, GroupFunction<T> body) {
    List<@Nullable T> results = new ArrayList<>();
    for (int rank = 0; rank < worldSize; rank++) {
      results.add(null);
    }
    runConnected(
        worldSize,
        communicator -> {
          T result = body.apply(communicator);
          synchronized (results) {
            results.set(communicator.rank(), result);
          }
        });
    List<T> complete = new ArrayList<>();
    results.forEach(complete::add);
    return complete;
  }

  private static Ended runRank(Rendezvous rendezvous, RankBody body) {
    try {
      body.run(rendezvous);
      return new Ended(rendezvous.rank(), null);
    } catch (Exception | Error e) {
      return new Ended(rendezvous.rank(), e);
    }
  }

  private record Ended(int rank, @Nullable Throwable failure) {}

  /** The wait for all ranks: the first failure, or the end of the time, ends every rank. */
  private record Run(StoreServer server, List<Thread> threads, BlockingQueue<Ended> ended) {
    void await() {
      long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(RUN_SECONDS);
      RankFailure first = null;
      for (int left = threads.size(); left > 0; left--) {
        Ended next = poll(deadline);
        if (next == null) {
          RankFailure stuck = first == null ? stuck() : first;
          server.abort("a rank is stuck");
          throw stuck;
        }
        Throwable failure = next.failure();
        if (failure != null && first == null) {
          first = new RankFailure(next.rank(), threads.size(), failure);
          server.abort(failure.toString());
          deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(LEAVE_SECONDS);
        } else if (failure != null && first != null) {
          first.addSuppressed(failure);
        }
      }
      if (first != null) {
        throw first;
      }
    }

    private @Nullable Ended poll(long deadline) {
      try {
        return ended.poll(deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        return null;
      }
    }

    private RankFailure stuck() {
      StringBuilder where = new StringBuilder();
      for (Thread thread : threads) {
        where.append('\n').append(thread.getName()).append(": ");
        for (StackTraceElement element : thread.getStackTrace()) {
          where.append("\n    ").append(element);
        }
      }
      return new RankFailure(
          "Ranks did not end within " + RUN_SECONDS + " s; they are at:" + where);
    }
  }
}
