package io.sparktrainer.comm;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.comm.testing.RankFailure;
import io.sparktrainer.comm.testing.RankThreads;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.NativeLibraries;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Every way a group can fail, ranks as threads: an exception on time, with the cause. */
@Timeout(120)
class TestGlooFailures {
  @BeforeAll
  static void load() {
    NativeLibraries.load();
  }

  private static Communicator verified(Rendezvous rendezvous) {
    return GlooCommunicator.builder(rendezvous).verified().connect();
  }

  private static double secondsSince(long start) {
    return (System.nanoTime() - start) / 1e9;
  }

  @Test
  void anAbsentPeerIsATimeOut() {
    CountDownLatch waited = new CountDownLatch(1);
    RankThreads.run(
        2,
        3,
        rendezvous -> {
          try (Communicator group = GlooCommunicator.connect(rendezvous);
              var scope = NativeScope.open()) {
            group.barrier().await();
            if (rendezvous.rank() == 1) {
              waited.await();
              return;
            }
            long start = System.nanoTime();
            CollectiveHandle handle =
                group.allReduce(Tensors.zeros(DType.FLOAT32, Device.CPU, 8), ReduceOp.SUM);
            assertThat(handle.isDone()).isFalse();
            assertThatThrownBy(handle::await)
                .isInstanceOf(CollectiveException.class)
                .hasMessageContaining(
                    "Cannot complete all-reduce #1 of float32[8], sum (rank 0 of 2, after ")
                .hasMessageContaining("expected every rank to take part within 3 s");
            assertThat(secondsSince(start)).isBetween(2.5, 8.0);
            assertThatThrownBy(handle::await).hasMessageContaining("#1");
            assertThatThrownBy(
                    () ->
                        group
                            .reduceScatter(
                                Tensors.zeros(DType.FLOAT32, Device.CPU, 4),
                                Tensors.zeros(DType.FLOAT32, Device.CPU, 8),
                                ReduceOp.SUM)
                            .await())
                .isInstanceOf(CollectiveException.class)
                .hasMessageContaining("Cannot complete reduce-scatter #2 of float32[8], sum");
            waited.countDown();
          }
        });
  }

  @Test
  void aPeerThatNeverConnectsIsATimeOut() {
    try (StoreServer server = StoreServer.open("127.0.0.1", 2)) {
      long start = System.nanoTime();
      assertThatThrownBy(() -> GlooCommunicator.connect(server.rendezvous(0, 2)))
          .isInstanceOf(CollectiveException.class)
          .hasMessageContaining("Cannot connect the ranks of group 'world' through 127.0.0.1")
          .hasMessageContaining("rank 0 of 2");
      assertThat(secondsSince(start)).isBetween(1.5, 8.0);
    }
  }

  @Test
  void anAbortFreesRanksThatWait() {
    CountDownLatch ready = new CountDownLatch(3);
    RankThreads.run(
        3,
        rendezvous -> {
          Communicator group = GlooCommunicator.connect(rendezvous);
          group.barrier().await();
          ready.countDown();
          long start = System.nanoTime();
          if (rendezvous.rank() == 2) {
            assertThat(ready.await(20, TimeUnit.SECONDS)).isTrue();
            group.abort("out of memory");
          } else {
            assertThatThrownBy(() -> group.barrier().await())
                .isInstanceOf(CollectiveException.class)
                .hasMessageContaining("barrier #1")
                .hasMessageContaining("aborted by rank 2 of 3: out of memory");
          }
          assertThatThrownBy(group::barrier)
              .isInstanceOf(CollectiveException.class)
              .hasMessageContaining("aborted by rank 2 of 3: out of memory");
          group.close();
          assertThat(secondsSince(start)).isLessThan(5);
        });
  }

  @Test
  void anAbortFromAnotherThreadFreesItsOwnRank() {
    CountDownLatch ended = new CountDownLatch(1);
    RankThreads.run(
        2,
        rendezvous -> {
          Communicator group = GlooCommunicator.connect(rendezvous);
          if (rendezvous.rank() == 0) {
            CollectiveHandle handle = group.barrier();
            CollectiveHandle ring =
                group.reduceScatter(
                    Tensors.zeros(DType.FLOAT32, Device.CPU, 4),
                    Tensors.zeros(DType.FLOAT32, Device.CPU, 8),
                    ReduceOp.SUM);
            Thread killer = new Thread(() -> group.abort("task killed"));
            killer.start();
            assertThatThrownBy(handle::await).hasMessageContaining("rank 0 of 2: task killed");
            assertThat(handle.isDone()).isTrue();
            assertThatThrownBy(ring::await)
                .hasMessageContaining("Cannot complete reduce-scatter #1")
                .hasMessageContaining("rank 0 of 2: task killed");
            assertThat(ring.isDone()).isTrue();
            killer.join();
            ended.countDown();
          } else {
            assertThat(ended.await(20, TimeUnit.SECONDS)).isTrue();
            assertThatThrownBy(() -> group.barrier().await())
                .hasMessageContaining("rank 0 of 2: task killed");
          }
          group.close();
        });
  }

  @Test
  void anInterruptFreesTheThread() {
    CountDownLatch ended = new CountDownLatch(1);
    RankThreads.run(
        2,
        rendezvous -> {
          Communicator group = GlooCommunicator.connect(rendezvous);
          if (rendezvous.rank() == 0) {
            CollectiveHandle handle = group.barrier();
            Thread.currentThread().interrupt();
            assertThatThrownBy(handle::await).hasMessageContaining("the thread was interrupted");
            assertThat(Thread.interrupted()).isTrue();
            ended.countDown();
          } else {
            assertThat(ended.await(20, TimeUnit.SECONDS)).isTrue();
          }
          group.abort("end of test");
          group.close();
        });
  }

  @Test
  void aRankThatLeavesWithoutGoodByeIsNamed() {
    assertThatThrownBy(
            () ->
                RankThreads.runConnected(
                    2,
                    group -> {
                      if (group.rank() == 1) {
                        throw new IllegalArgumentException("bad row");
                      }
                      group.barrier().await();
                    }))
        .isInstanceOf(RankFailure.class)
        .hasMessageContaining("bad row");
  }

  @Test
  void aWrongSecretIsRefused() {
    try (StoreServer server = StoreServer.open("127.0.0.1", 2)) {
      int port = server.address().getPort();
      Rendezvous stranger = new Rendezvous("127.0.0.1", port, "not it", 1, 2, 5);
      assertThatThrownBy(() -> GlooCommunicator.connect(stranger))
          .isInstanceOf(CollectiveException.class)
          .hasMessageContaining("it refused the secret");
    }
  }

  @Test
  void aPortOfSomethingElseIsToldApart() throws Exception {
    try (ServerSocket silent = new ServerSocket(0, 5, InetAddress.getLoopbackAddress())) {
      Rendezvous lost = new Rendezvous("127.0.0.1", silent.getLocalPort(), "s", 0, 2, 1);
      assertThatThrownBy(() -> GlooCommunicator.connect(lost))
          .hasMessageContaining("something listens there, but does not answer as a store does");
      Thread web =
          new Thread(
              () -> {
                try (var socket = silent.accept();
                    var again = silent.accept()) {
                  again
                      .getOutputStream()
                      .write("HTTP/1.1 400\r\n".getBytes(StandardCharsets.US_ASCII));
                  again.getInputStream().readAllBytes();
                } catch (java.io.IOException e) {
                  throw new java.io.UncheckedIOException(e);
                }
              });
      web.start();
      Rendezvous wrong = new Rendezvous("127.0.0.1", silent.getLocalPort(), "s", 0, 2, 5);
      assertThatThrownBy(() -> GlooCommunicator.connect(wrong))
          .hasMessageContaining("what listens there is no store of this library");
      web.join();
    }
  }

  @Test
  void nobodyAtThePortIsATimeOut() throws Exception {
    int port;
    try (ServerSocket unused = new ServerSocket(0)) {
      port = unused.getLocalPort();
    }
    long start = System.nanoTime();
    assertThatThrownBy(
            () -> GlooCommunicator.connect(new Rendezvous("127.0.0.1", port, "s", 0, 2, 1)))
        .hasMessageContaining("Cannot connect to the store of rank 0 at 127.0.0.1:" + port)
        .hasMessageContaining("Connection refused");
    assertThat(secondsSince(start)).isBetween(0.8, 5.0);
  }

  @Test
  void findDVerifiedRanksNameTheDifferenceAndGoOn() {
    RankThreads.runConnected(
        3,
        TestGlooFailures::verified,
        group -> {
          try (var scope = NativeScope.open()) {
            boolean odd = group.rank() == 2;
            Tensor tensor = Tensors.zeros(DType.FLOAT32, Device.CPU, odd ? 1024 : 4);
            assertThatThrownBy(() -> group.allReduce(tensor, ReduceOp.SUM))
                .isInstanceOf(CollectiveException.class)
                .hasMessageContaining(
                    "Cannot start all-reduce #0 (rank %d of 3)".formatted(group.rank()))
                .hasMessageContaining("all-reduce #0 of float32[4], sum on rank 0")
                .hasMessageContaining("all-reduce #0 of float32[1024], sum on rank 2");
            assertThatThrownBy(() -> group.allReduce(tensor, odd ? ReduceOp.MAX : ReduceOp.SUM))
                .hasMessageContaining("max on rank 2");
            assertThatThrownBy(() -> group.broadcast(tensor, odd ? 1 : 0))
                .hasMessageContaining("from rank 1 on rank 2");
            assertThatThrownBy(() -> (odd ? group.barrier() : group.broadcast(tensor, 0)).await())
                .hasMessageContaining("broadcast #3 of float32[4], from rank 0 on rank 0")
                .hasMessageContaining("barrier #3 on rank 2");
            Tensor same = Tensors.of(new float[] {1}, 1);
            group.allReduce(same, ReduceOp.SUM).await();
            assertThat(Tensors.toFloats(same)).containsExactly(3);
          }
        });
  }
}
