package io.sparktrainer.comm;

import io.sparktrainer.torch.NativeScope;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.bytedeco.javacpp.chrono.Milliseconds;
import org.bytedeco.pytorch.AllgatherOptions;
import org.bytedeco.pytorch.AllreduceOptions;
import org.bytedeco.pytorch.BarrierOptions;
import org.bytedeco.pytorch.BroadcastOptions;
import org.bytedeco.pytorch.GlooDeviceVector;
import org.bytedeco.pytorch.ProcessGroupGloo;
import org.bytedeco.pytorch.ReduceOp.RedOpType;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorVector;
import org.bytedeco.pytorch.Work;

/**
 * The native side of one Gloo group. Nothing is checked here: a wrong size ends the JVM. The
 * returned work belongs to the caller, who closes it.
 */
final class GlooGroup implements AutoCloseable {
  private final ProcessGroupGloo group;
  private final GlooRendezvous meeting;
  private final ProcessGroupGloo.Options options;
  private final ExecutorService worker = Executors.newSingleThreadExecutor(GlooGroup::workerThread);
  private boolean closed;

  private GlooGroup(
      ProcessGroupGloo group, GlooRendezvous meeting, ProcessGroupGloo.Options options) {
    this.group = group;
    this.meeting = meeting;
    this.options = options;
  }

  /**
   * Waits for all {@code size} ranks of the group that is known as {@code prefix} in the store.
   *
   * @throws CollectiveException if a rank does not come in time
   */
  static GlooGroup connect(
      GlooSession session, StoreClient client, String prefix, int rank, int size) {
    int timeoutSeconds = session.rendezvous.timeoutSeconds();
    BlockingCall call =
        new BlockingCall(
            "connect the ranks of group '" + prefix + "' through " + session.localHost,
            "rank %d of %d".formatted(rank, size),
            timeoutSeconds,
            session.abort);
    GlooRendezvous meeting = new GlooRendezvous();
    CompletableFuture<GlooGroup> connecting =
        call.start(
            () -> open(meeting, session.localHost, rank, size, timeoutSeconds), GlooGroup::close);
    try (meeting) {
      meeting.exchange(client, prefix, rank, size, call, connecting);
      return call.await(connecting);
    } catch (RuntimeException e) {
      connecting.cancel(false);
      throw e;
    }
  }

  private static GlooGroup open(
      GlooRendezvous meeting, String localHost, int rank, int size, int timeoutSeconds) {
    try (var scope = NativeScope.open()) {
      Milliseconds timeout = new Milliseconds(timeoutSeconds * 1000L);
      ProcessGroupGloo.Options options = ProcessGroupGloo.Options.create(timeout);
      options.devices(new GlooDeviceVector(ProcessGroupGloo.createDeviceForHostname(localHost)));
      ProcessGroupGloo group = new ProcessGroupGloo(meeting.nativeStore(), rank, size, options);
      return new GlooGroup(NativeScope.keep(group), meeting, NativeScope.keep(options));
    } catch (RuntimeException e) {
      meeting.close();
      throw e;
    }
  }

  private static Thread workerThread(Runnable work) {
    Thread thread = new Thread(work, "spark-trainer Gloo group");
    thread.setDaemon(true);
    return thread;
  }

  Work allReduce(Tensor tensor, ReduceOp op) {
    try (var scope = NativeScope.open()) {
      AllreduceOptions options = new AllreduceOptions().reduceOp(nativeOp(op));
      return NativeScope.keep(group.allreduce(new TensorVector(tensor), options));
    }
  }

  Work allGather(Tensor output, Tensor input) {
    try (var scope = NativeScope.open()) {
      // The native call wants the output's shape to follow the input's.
      Tensor flatOutput = FlatTensors.flat(output);
      Tensor flatInput = FlatTensors.flat(input);
      return NativeScope.keep(group._allgather_base(flatOutput, flatInput, new AllgatherOptions()));
    }
  }

  Work broadcast(Tensor tensor, int root) {
    try (var scope = NativeScope.open()) {
      BroadcastOptions options = new BroadcastOptions().rootRank(root);
      return NativeScope.keep(group.broadcast(new TensorVector(tensor), options));
    }
  }

  Work barrier() {
    try (var scope = NativeScope.open()) {
      return NativeScope.keep(group.barrier(new BarrierOptions()));
    }
  }

  Work send(Tensor tensor, int peer, int tag) {
    try (var scope = NativeScope.open()) {
      return NativeScope.keep(group.send(new TensorVector(tensor), peer, tag));
    }
  }

  Work receive(Tensor tensor, int peer, int tag) {
    try (var scope = NativeScope.open()) {
      return NativeScope.keep(group.recv(new TensorVector(tensor), peer, tag));
    }
  }

  /** Runs {@code work} on the group's own thread, after what was handed in before. */
  CompletableFuture<Void> runInOrder(Runnable work) {
    return CompletableFuture.runAsync(work, worker);
  }

  /** AVG is a sum here; the caller divides. */
  private static org.bytedeco.pytorch.ReduceOp nativeOp(ReduceOp op) {
    return new org.bytedeco.pytorch.ReduceOp(
        switch (op) {
          case SUM, AVG -> RedOpType.SUM;
          case MIN -> RedOpType.MIN;
          case MAX -> RedOpType.MAX;
        });
  }

  /**
   * Gives back sockets and threads, after waiting for collectives that are under way: until they
   * are done or their time-out has passed.
   */
  @Override
  public void close() {
    synchronized (this) {
      if (closed) {
        return;
      }
      closed = true;
    }
    // What is under way ends by itself or by its time-out.
    worker.shutdown();
    try {
      worker.awaitTermination(Long.MAX_VALUE, TimeUnit.NANOSECONDS);
    } catch (InterruptedException e) {
      // Freeing the group under its own thread would end the process.
      Thread.currentThread().interrupt();
      return;
    }
    group.close();
    meeting.close();
    options.close();
  }
}
