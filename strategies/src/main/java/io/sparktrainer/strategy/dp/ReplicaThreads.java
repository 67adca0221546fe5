package io.sparktrainer.strategy.dp;

import io.sparktrainer.torch.Threads;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;

/** One thread per replica, each with an equal share of the processor threads. */
final class ReplicaThreads implements AutoCloseable {
  private final ExecutorService pool;
  private final int replicas;

  /** What a replica does; {@code stop} turns true when another one has failed. */
  @FunctionalInterface
  interface Work<T> {
    T run(int replica, Stop stop);
  }

  /** Tells a replica that its work is no longer wanted. */
  @FunctionalInterface
  interface Stop {
    boolean isRequested();
  }

  /**
   * @param threads processor threads of all replicas together
   */
  ReplicaThreads(int replicas, int threads) {
    this.replicas = replicas;
    int share = Threads.share(threads, replicas);
    AtomicInteger made = new AtomicInteger();
    CountDownLatch started = new CountDownLatch(replicas);
    ThreadPoolExecutor executor =
        (ThreadPoolExecutor)
            Executors.newFixedThreadPool(
                replicas,
                task -> {
                  Thread thread =
                      new Thread(
                          () -> {
                            Threads.use(share);
                            started.countDown();
                            task.run();
                          },
                          "replica-" + made.getAndIncrement());
                  thread.setDaemon(true);
                  return thread;
                });
    this.pool = executor;
    // Not every BLAS can change its thread count while another thread computes.
    executor.prestartAllCoreThreads();
    awaitStart(started);
  }

  private void awaitStart(CountDownLatch started) {
    try {
      started.await();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      pool.shutdown();
      throw new IllegalStateException("Cannot start replicas: the thread was interrupted.", e);
    }
  }

  /**
   * Runs {@code work} for the replicas 0 to {@code count - 1} at the same time and waits for all,
   * also when one fails: native code cannot be interrupted, and it uses the caller's tensors.
   *
   * @return the results in the order of the replicas
   * @throws ReplicaException with the failure that came first
   */
  <T> List<T> run(int count, Work<T> work) {
    AtomicReference<@Nullable ReplicaException> first = new AtomicReference<>();
    Stop stop = () -> first.get() != null;
    List<Future<T>> running = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      int replica = i;
      running.add(
          pool.submit(
              () -> {
                try {
                  return work.run(replica, stop);
                } catch (RuntimeException | Error e) {
                  first.compareAndSet(null, new ReplicaException(replica, replicas, e));
                  throw e;
                }
              }));
    }
    List<T> results = new ArrayList<>();
    List<Throwable> failures = new ArrayList<>();
    for (Future<T> future : running) {
      try {
        results.add(await(future));
      } catch (ExecutionException e) {
        failures.add(e.getCause());
      }
    }
    ReplicaException failure = first.get();
    if (failure != null) {
      failures.stream().filter(e -> e != failure.getCause()).forEach(failure::addSuppressed);
      throw failure;
    }
    return results;
  }

  private static <T> T await(Future<T> future) throws ExecutionException {
    boolean interrupted = false;
    try {
      while (true) {
        try {
          return future.get();
        } catch (InterruptedException e) {
          interrupted = true;
        }
      }
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  @Override
  public void close() {
    pool.shutdown();
  }
}
